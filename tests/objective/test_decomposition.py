from math import log

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from normscope.objective.decomposition import LinearGaussian, Terms, closed_form, estimate, kl

PROBLEMS = [(1, 1, 0), (2, 5, 2), (10, 3, 4)]


def draw_problem(k, d, generator):
    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def covariance(size):
        root = draw(size, size)
        return root @ root.T / size + 0.5 * torch.eye(size, dtype=torch.float64)

    return LinearGaussian(draw(k), covariance(k), draw(d, k), draw(d), covariance(d))


def draw_pair(k, d, seed):
    generator = torch.Generator().manual_seed(seed)
    return draw_problem(k, d, generator), draw_problem(k, d, generator)


def joint(p):
    """The joint Gaussian of (x, z), as an affine map of independent noise: (x, z) = A·(x, noise) + (0, bias)."""
    k, d = len(p.mean), len(p.bias)
    affine = torch.eye(k + d, dtype=torch.float64)
    affine[k:, :k] = p.weight
    mean = affine @ torch.cat([p.mean, torch.zeros_like(p.bias)]) + torch.cat([torch.zeros_like(p.mean), p.bias])
    return MultivariateNormal(mean, affine @ torch.block_diag(p.covariance, p.noise) @ affine.T)


@pytest.mark.parametrize(("k", "d", "seed"), PROBLEMS)
def test_four_terms_add_up_to_the_divergence_of_the_joints(k, d, seed):
    normal, anomalous = draw_pair(k, d, seed)
    divergence = kl(normal, anomalous)
    assert closed_form(normal, anomalous).total() == pytest.approx(divergence.item(), abs=1e-6)
    assert divergence > 0.1


@pytest.mark.parametrize(("k", "d", "seed"), PROBLEMS)
def test_divergence_agrees_with_torch(k, d, seed):
    normal, anomalous = draw_pair(k, d, seed)
    assert kl(normal, anomalous) == pytest.approx(kl_divergence(joint(normal), joint(anomalous)).item(), rel=1e-9)


@pytest.mark.parametrize(("k", "d", "seed"), PROBLEMS)
def test_information_entropy_and_input_divergence_agree_with_torch(k, d, seed):
    normal, anomalous = draw_pair(k, d, seed)
    terms, both = closed_form(normal, anomalous), joint(normal)
    x = MultivariateNormal(normal.mean, normal.covariance)
    z = MultivariateNormal(both.mean[k:], both.covariance_matrix[k:, k:])
    assert terms.entropy == pytest.approx(z.entropy().item())
    assert terms.information == pytest.approx((x.entropy() + z.entropy() - both.entropy()).item())
    other = MultivariateNormal(anomalous.mean, anomalous.covariance)
    assert terms.input_divergence == pytest.approx(kl_divergence(x, other).item())


@pytest.mark.parametrize(("k", "d", "seed"), PROBLEMS)
def test_estimates_lie_within_four_standard_errors(k, d, seed):
    normal, anomalous = draw_pair(k, d, seed)
    means, errors = estimate(normal, anomalous, 20_000, torch.Generator().manual_seed(seed))
    for mean, error, exact in zip(means, errors, closed_form(normal, anomalous), strict=True):
        assert mean == pytest.approx(exact.item(), abs=4 * error.item())
        assert 0 < error < 0.03 * (1 + abs(exact))


def test_information_of_the_scalar_channel():
    one = torch.ones(1, dtype=torch.float64)  # Shannon's ½·log(1 + signal/noise)
    channel = LinearGaussian(0 * one, 3 * one[None], 2 * one[None], 0 * one, 4 * one[None])
    assert closed_form(channel, channel).information == pytest.approx(0.5 * log(1 + 4 * 3 / 4))


def test_identical_distributions_have_no_divergence_and_the_dropped_term_balances_the_kept_ones():
    normal, _ = draw_pair(3, 2, seed=0)
    terms = closed_form(normal, normal)
    assert kl(normal, normal) == pytest.approx(0, abs=1e-9)
    assert terms.input_divergence == pytest.approx(0, abs=1e-9)
    assert terms.cross_entropy == pytest.approx((terms.entropy - terms.information).item())


def test_differential_entropies_may_be_negative():
    tiny = torch.full((1,), 1e-3, dtype=torch.float64)
    narrow = LinearGaussian(0 * tiny, tiny[None], tiny[None], 0 * tiny, tiny[None])
    terms = closed_form(narrow, narrow)
    assert terms.entropy < 0
    assert terms.cross_entropy < 0


def test_total_has_the_signs_of_the_identity():
    assert Terms(*map(torch.tensor, (1.0, 10.0, 100.0, 1000.0))).total() == 1091
