from math import exp, log, log1p, pi, sqrt

import pytest
import torch

from normscope.objective import cross_entropy


def codes(n, mean, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, len(mean), generator=generator, dtype=torch.float64)
    return torch.tensor(mean, dtype=torch.float64) + torch.tensor(scale, dtype=torch.float64) * noise


def test_gaussian_recovers_the_cross_entropy_of_two_diagonal_gaussians():
    # Sum over dimensions of ½[log 2πs_a² + (s_n² + (m_n - m_a)²) / s_a²].
    n, (m_n, s_n), (m_a, s_a) = 20000, ([0.0, 1.0], [1.0, 0.5]), ([2.0, 0.0], [3.0, 1.5])
    per_dimension = zip(m_n, s_n, m_a, s_a, strict=True)
    expected = sum(0.5 * (log(2 * pi * t**2) + (s**2 + (m - a) ** 2) / t**2) for m, s, a, t in per_dimension)
    normal, anomalous = codes(n, m_n, s_n, seed=0), codes(n, m_a, s_a, seed=1)
    # Largest terms: the squared distance (SD below 1 here) and the fitted log variance (SD sqrt(2/n) each).
    assert cross_entropy.gaussian(normal, anomalous) == pytest.approx(expected, abs=4 * sqrt(4 / n))


def test_gaussian_agrees_with_the_log_density_of_the_fitted_moments():
    normal, anomalous = codes(30, [0.0, 1.0], [1.0, 0.5], seed=0), codes(40, [2.0, 0.0], [3.0, 1.5], seed=1)
    fitted = torch.distributions.Normal(anomalous.mean(0), anomalous.std(0, correction=0))
    assert cross_entropy.gaussian(normal, anomalous) == pytest.approx(-fitted.log_prob(normal).sum(1).mean().item())


def test_gaussian_of_collapsed_anomalies_stays_finite():
    normal, anomalous = torch.ones(4, 3), torch.zeros(5, 3, requires_grad=True)
    value = cross_entropy.gaussian(normal, anomalous, floor=0.01)
    value.backward()
    assert value.item() == pytest.approx(3 * 0.5 * (100 + log(0.01) + log(2 * pi)))
    assert anomalous.grad.isfinite().all()


def test_norm_margin_by_hand():
    normal, anomalous = torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([[0.0, 0.0, 0.0]])
    expected = -(log1p(exp(-4)) + log(2)) / 2 - log1p(exp(-1))
    assert cross_entropy.norm_margin(normal, anomalous) == pytest.approx(expected)


def test_norm_margin_pulls_normal_norms_up_and_anomalous_ones_down():
    normal, anomalous = torch.ones(2, 3, requires_grad=True), torch.ones(4, 3, requires_grad=True)
    cross_entropy.norm_margin(normal, anomalous).backward()
    assert (normal.grad > 0).all()
    assert (anomalous.grad < 0).all()


def test_norm_margin_approaches_zero_and_has_finite_gradients_at_the_origin():
    anomalous = torch.zeros(4, 3, requires_grad=True)
    value = cross_entropy.norm_margin(torch.full((2, 3), 50.0), anomalous)
    value.backward()
    assert value.item() == pytest.approx(-log1p(exp(-1)))
    assert anomalous.grad.isfinite().all()


@pytest.mark.parametrize("name", cross_entropy.__all__)
def test_separation_grows_with_the_distance_of_normal_codes_from_anomalous_ones(name):
    anomalous = codes(50, [0.0, 0.0], [0.3, 0.3], seed=0)
    values = [getattr(cross_entropy, name)(codes(50, [m, m], [0.1, 0.1], seed=1), anomalous) for m in (0.2, 1, 3)]
    assert values[0] + 0.1 < values[1]
    assert values[1] + 0.1 < values[2]
