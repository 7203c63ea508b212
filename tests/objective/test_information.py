"""Reference problem: d independent pairs of standard Gaussians with correlation rho, for which

I = -d/2·log(1 - rho²), the density ratio r is known, and E_product[r²] = E_joint[r] = (1 - rho²)^-d = 1 + chi².
"""

from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
import torch

from normscope.objective import information
from normscope.objective.information import (
    decoupled,
    donsker_varadhan,
    infonce,
    jsd,
    moving_log_average,
    nwj,
    smile,
)

PROBLEMS = [(1, 0.8), (4, 0.5)]


def exact_scores(d, rho, n=4000, m=64, seed=0):
    """The exact log density ratio as critic; every negative is drawn afresh, so rows are independent."""
    generator = torch.Generator().manual_seed(seed)
    x, noise = torch.randn(2, n, d, generator=generator, dtype=torch.float64)
    other = torch.randn(n, m, d, generator=generator, dtype=torch.float64)
    return log_ratio(x, rho * x + (1 - rho**2) ** 0.5 * noise, rho), log_ratio(x[:, None], other, rho)


def log_ratio(x, y, rho):
    variance = 1 - rho**2
    return (-0.5 * log(variance) - (y - rho * x).square() / (2 * variance) + y.square() / 2).sum(-1)


def true_information(d, rho):
    return -d / 2 * log(1 - rho**2)


def chi_square(d, rho):
    return (1 - rho**2) ** -d - 1


def standard_error(per_row):
    return float(per_row.std() / len(per_row) ** 0.5)


def grid(rho, half_width=8.0, points=801):
    """Densities of the joint and of the product of marginals, and the cell size, for numerical integration at d = 1."""
    axis = np.linspace(-half_width, half_width, points)
    x, y = np.meshgrid(axis, axis)
    joint = np.exp(-(x**2 - 2 * rho * x * y + y**2) / (2 * (1 - rho**2))) / (2 * np.pi * (1 - rho**2) ** 0.5)
    return joint, np.exp(-(x**2 + y**2) / 2) / (2 * np.pi), (axis[1] - axis[0]) ** 2


@pytest.mark.parametrize(("d", "rho"), PROBLEMS)
def test_infonce_lies_in_its_bracket_around_gaussian_information(d, rho):
    # Above by the bound itself, below by Jensen: E log(mean of r_0 … r_m) <= log(1 + chi²/(m + 1)).
    positive, negative = exact_scores(d, rho)
    every = torch.cat([positive[:, None], negative], 1)
    error = 4 * standard_error(positive - every.logsumexp(1))
    value, truth = infonce(positive, negative).item(), true_information(d, rho)
    assert truth - log(1 + chi_square(d, rho) / 65) - error < value < truth + error


def test_infonce_is_capped_at_log_of_the_number_of_candidates():
    positive, negative = exact_scores(d=5, rho=0.99, n=500, m=15)
    assert true_information(5, 0.99) > 9.7
    assert 0.95 * log(16) < infonce(positive, negative) <= log(16)


@pytest.mark.parametrize(("d", "rho"), PROBLEMS)
def test_donsker_varadhan_recovers_gaussian_information(d, rho):
    positive, negative = exact_scores(d, rho)
    # Delta method: E e^negative = 1 exactly, so -log of its mean varies as minus that mean.
    error = standard_error(positive - negative.exp().mean(1))
    assert donsker_varadhan(positive, negative) == pytest.approx(true_information(d, rho), abs=4 * error)
    assert error < 0.04


@pytest.mark.parametrize(("d", "rho"), PROBLEMS)
def test_nwj_recovers_gaussian_information_at_its_optimal_critic(d, rho):
    positive, negative = exact_scores(d, rho)
    error = standard_error(positive - negative.exp().mean(1))
    assert nwj(1 + positive, 1 + negative) == pytest.approx(true_information(d, rho), abs=4 * error)


def test_nwj_at_a_shifted_critic_loses_what_the_bound_predicts():
    # E[f] - E[e^(f - 1)] at f = log r is I - 1/e, since E r = 1 under the product.
    positive, negative = exact_scores(1, 0.8)
    error = standard_error(positive - negative.exp().mean(1))
    assert nwj(positive, negative) == pytest.approx(true_information(1, 0.8) - exp(-1), abs=4 * error)


@pytest.mark.parametrize(("d", "rho"), PROBLEMS)
def test_decoupled_lies_just_above_gaussian_information(d, rho):
    positive, negative = exact_scores(d, rho, n=2000, m=256)
    error = 4 * standard_error(positive - negative.logsumexp(1))
    value, truth = decoupled(positive, negative).item(), true_information(d, rho)
    # Jensen below; above, -log of a mean of m terms exceeds 0 by chi²/(2m) to first order, doubled for the rest.
    assert truth - error < value < truth + chi_square(d, rho) / 256 + error


def test_decoupled_leaves_the_positive_out_of_the_denominator():
    positive, negative = torch.tensor([1.0, 3.0]), torch.tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]])
    rows = [1.0 - log((1 + exp(1) + exp(2)) / 3), 3.0 - 1.0]
    assert decoupled(positive, negative) == pytest.approx(sum(rows) / 2, rel=1e-6)


def test_decoupled_is_not_capped():
    positive, negative = exact_scores(d=5, rho=0.99, n=500, m=15)
    assert decoupled(positive, negative) > 2 * log(16)


@pytest.mark.parametrize("rho", [0.3, 0.8])
def test_jsd_is_twice_the_divergence_less_twice_log_two(rho):
    # Jensen-Shannon divergence integrated on a grid from its definition through the mixture.
    p, q, cell = grid(rho)
    mixture = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = sum(np.nansum(f * np.log(f / mixture)) for f in (p, q)) / 2 * cell
    positive, negative = exact_scores(1, rho)
    softplus = torch.nn.functional.softplus
    error = standard_error(-softplus(-positive) - softplus(negative).mean(1))
    assert jsd(positive, negative) == pytest.approx(2 * divergence - 2 * log(2), abs=4 * error)
    assert error < 0.01


def test_jsd_spans_from_minus_two_log_two_to_zero():
    assert jsd(torch.zeros(3), torch.zeros(3, 2)) == pytest.approx(-2 * log(2))
    assert jsd(torch.full((3,), 50.0), torch.full((3, 2), -50.0)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("rho", "tau"), [(0.8, 1.0), (0.95, 0.5)])
def test_smile_clips_the_partition_by_numerical_integration(rho, tau):
    p, q, cell = grid(rho)
    partition = (q * np.clip(p / q, exp(-tau), exp(tau))).sum() * cell
    positive, negative = exact_scores(1, rho)
    error = standard_error(negative.clamp(-tau, tau).exp().mean(1) / partition)
    value = smile(positive, negative, tau=tau) - positive.mean()  # the other half of the bound varies more
    assert value == pytest.approx(-log(partition), abs=4 * error)
    assert abs(log(partition)) > 8 * error, "the clip must matter, or this test could not fail"


def test_smile_is_donsker_varadhan_where_nothing_is_clipped():
    positive, negative = torch.tensor([6.0, 1.0]), torch.tensor([[4.9, -4.9], [0.0, 2.0]])
    assert torch.equal(smile(positive, negative), donsker_varadhan(positive, negative))
    assert smile(positive, negative + 1) > donsker_varadhan(positive, negative + 1)


@pytest.mark.parametrize("name", information.__all__)
def test_estimator_rises_with_dependence(name):
    estimator = getattr(information, name)
    shift = 1 if name == "nwj" else 0
    values = [estimator(*(s + shift for s in exact_scores(2, rho, n=2000))) for rho in (0, 0.3, 0.6, 0.9)]
    assert all(low + 0.02 < high for low, high in pairwise(values))


@pytest.mark.parametrize("name", ["infonce", "donsker_varadhan", "smile", "decoupled"])
def test_constant_critic_sees_no_information(name):
    assert getattr(information, name)(torch.full((4,), 2.0), torch.full((4, 7), 2.0)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", information.__all__)
def test_estimator_gradient_pulls_positives_up_and_negatives_down(name):
    positive, negative = torch.zeros(3, requires_grad=True), torch.zeros(3, 5, requires_grad=True)
    getattr(information, name)(positive, negative).backward()
    assert (positive.grad > 0).all()
    assert (negative.grad < 0).all()


def test_moving_average_changes_the_gradient_of_donsker_varadhan_and_not_its_value():
    positive, negative = (s.requires_grad_() for s in exact_scores(1, 0.8, n=20, m=5))
    log_average = torch.tensor(0.7, dtype=torch.float64)
    corrected = donsker_varadhan(positive, negative, log_average)
    assert torch.equal(corrected, donsker_varadhan(positive, negative))
    of_positive, of_negative = torch.autograd.grad(corrected, [positive, negative])
    # MINE, section 3.2: gradient of -mean(e^negative) / average.
    torch.testing.assert_close(of_negative, -negative.detach().exp() / (negative.numel() * log_average.exp()))
    torch.testing.assert_close(of_positive, torch.full_like(positive, 1 / 20))


def test_plain_donsker_varadhan_gradient_is_the_softmax():
    positive, negative = (s.requires_grad_() for s in exact_scores(1, 0.8, n=20, m=5))
    (gradient,) = torch.autograd.grad(donsker_varadhan(positive, negative), [negative])
    torch.testing.assert_close(gradient, -negative.detach().flatten().softmax(0).view_as(negative))


def test_moving_log_average_is_the_log_of_the_moving_average():
    _, negative = exact_scores(1, 0.8, n=20, m=5)
    log_average, average = None, None
    for batch in negative.view(4, 5, 5):
        log_average = moving_log_average(log_average, batch, decay=0.9)
        mean = batch.exp().mean()
        average = mean if average is None else 0.9 * average + 0.1 * mean
    assert log_average == pytest.approx(average.log().item(), rel=1e-12)


def test_moving_log_average_is_stable_and_detached():
    first = moving_log_average(None, torch.full((2, 3), 1000.0, requires_grad=True))
    second = moving_log_average(first, torch.full((2, 3), -1000.0, requires_grad=True))
    assert first == pytest.approx(1000.0)
    assert second == pytest.approx(1000.0 + log(0.99), rel=1e-6)
    assert not first.requires_grad
    assert not second.requires_grad


def test_moving_average_at_the_truth_removes_the_gradient_bias():
    # One parameter, f = a·log r, at a = 1: the DV objective is stationary, E gradient = I - E_product[r·log r] = 0.
    # With batches of four negatives the plain gradient is biased, the corrected one (true average: log 1) is not.
    positive, negative = exact_scores(1, 0.8, n=4000, m=4)

    def gradient(log_average):
        one_row = torch.func.grad(lambda a, p, q: donsker_varadhan(a * p[None], a * q[None], log_average))
        return torch.vmap(one_row)(torch.ones_like(positive), positive, negative)

    plain, corrected = gradient(None), gradient(torch.zeros((), dtype=torch.float64))
    assert corrected.mean() == pytest.approx(0, abs=4 * standard_error(corrected))
    assert abs(plain.mean()) > 4 * standard_error(plain)
