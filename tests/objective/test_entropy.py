from math import e, lgamma, log, pi, sqrt

import pytest
import torch

from normscope.objective import entropy


def normal_codes(n, d, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(n, d, generator=generator, dtype=torch.float64)


def laplace_codes(n, d, scale, seed=0):
    generator = torch.Generator().manual_seed(seed)
    u = torch.rand(n, d, generator=generator, dtype=torch.float64) - 0.5
    return -scale * u.sign() * torch.log1p(-2 * u.abs())


def test_laplace_of_laplacian_codes_is_their_scale():
    z = laplace_codes(5000, 8, scale=1.7)
    error = 1.7 / sqrt(5000 * 8)  # |z| is exponential: its SD is its mean
    assert entropy.laplace(z) == pytest.approx(1.7, abs=4 * error)
    assert entropy.laplace_sum(z) == pytest.approx(8 * 1.7, abs=4 * 8 * error)


def test_gaussian_of_gaussian_codes_is_their_variance():
    z = normal_codes(5000, 8, scale=2)  # var z² = 2·s⁴
    error = 4 * 4 * sqrt(2 / 40000)
    assert entropy.gaussian(z) == pytest.approx(4, abs=error)
    assert entropy.gaussian_sum(z) == pytest.approx(8 * 4, abs=8 * error)


def test_l2_of_gaussian_codes_is_the_mean_of_the_chi_distribution():
    z = normal_codes(5000, 8, scale=2)  # s·sqrt(2)·Γ((d+1)/2)/Γ(d/2); the variance of a chi is below 1/2
    expected = 2 * sqrt(2) * torch.exp(torch.tensor(lgamma(4.5) - lgamma(4))).item()
    assert entropy.l2(z) == pytest.approx(expected, abs=4 * 2 * sqrt(0.5 / 5000))


def test_norms_by_hand():
    z = torch.tensor([[3.0, -4.0], [0.0, 0.0]])
    values = [getattr(entropy, name)(z).item() for name in ("laplace", "laplace_sum", "gaussian", "gaussian_sum", "l2")]
    assert values == pytest.approx([7 / 4, 7 / 2, 25 / 4, 25 / 2, 5 / 2])


@pytest.mark.parametrize(("n", "d"), [(30, 5), (5, 30)])
def test_coding_rate_is_the_exact_log_determinant(n, d):
    z = normal_codes(n, d)  # from the singular values, with neither Gram matrix formed
    singular = torch.linalg.svdvals(z)
    assert entropy.coding_rate(z) == pytest.approx(0.5 * torch.log1p(d / (n * 0.25) * singular.square()).sum().item())
    assert entropy.coding_rate(z, eps=2.0) == pytest.approx(
        0.5 * torch.log1p(d / (n * 4) * singular.square()).sum().item()
    )


def test_coding_rate_of_white_codes():
    n, d = 40, 6  # ZᵀZ = n·I gives d/2·log(1 + d/eps²)
    z = sqrt(n) * torch.linalg.qr(normal_codes(n, d)).Q
    assert entropy.coding_rate(z) == pytest.approx(3 * log(1 + 6 / 0.25))


def test_coding_rate_prefers_many_directions_to_one_of_equal_power():
    white = sqrt(40) * torch.linalg.qr(normal_codes(40, 6)).Q
    line = torch.zeros_like(white)
    line[:, 0] = white.norm(dim=1)
    assert entropy.gaussian_sum(line) == pytest.approx(entropy.gaussian_sum(white).item())
    assert entropy.coding_rate(line) < 0.5 * entropy.coding_rate(white)


def test_renyi_extremes():
    point = torch.full((9, 4), 1000.0)
    assert entropy.renyi(point) == pytest.approx(0, abs=1e-5)
    assert entropy.renyi(100 * torch.eye(9)) == pytest.approx(log(9), rel=1e-6)


def test_renyi_of_two_clusters_is_log_two():
    z = torch.tensor([[-50.0, 0.0], [50.0, 0.0]]).repeat(8, 1)
    assert entropy.renyi(z) == pytest.approx(log(2), rel=1e-6)


def test_renyi_is_minus_log_of_the_squared_eigenvalues():
    z = normal_codes(20, 5)
    kernel = torch.exp(-torch.cdist(z, z).square() / (2 * 5))
    assert entropy.renyi(z) == pytest.approx(-torch.linalg.eigvalsh(kernel / 20).square().sum().log().item())


@pytest.mark.parametrize(("d", "scale"), [(1, 1.0), (64, 0.5)])
def test_renyi_of_gaussian_codes(d, scale):
    # z_i - z_j ~ N(0, 2s²I), so E exp(-||z_i - z_j||²/d) = (1 + 4s²/d)^(-d/2) off the diagonal and 1 on it.
    n, values = 200, []
    for seed in range(20):
        values.append(entropy.renyi(normal_codes(n, d, scale, seed)))
    values = torch.stack(values)
    expected = -log(1 / n + (1 - 1 / n) * (1 + 4 * scale**2 / d) ** (-d / 2))
    spread = values.std().item()
    assert values.mean() == pytest.approx(expected, abs=4 * spread / sqrt(20) + spread**2)  # + the log's own bias
    assert spread < 0.1


@pytest.mark.parametrize(("d", "scale"), [(1, 0.1), (3, 3.0)])
def test_koleo_recovers_gaussian_differential_entropy(d, scale):
    n = 2000
    expected = d / 2 * log(2 * pi * e * scale**2)
    # Per point: log of an exponential variable (variance pi²/6), log density (variance d/2); 1.5 for shared neighbours.
    error = 1.5 * sqrt((pi**2 / 6 + d / 2) / n)
    assert entropy.koleo(normal_codes(n, d, scale)) == pytest.approx(expected, abs=4 * error)


def test_koleo_by_hand_and_its_scaling_law():
    z = torch.tensor([[0.0], [1.0], [4.0]])  # nearest distances 1, 1, 3; ball volume 2; ψ(3) - ψ(1) = 3/2
    assert entropy.koleo(z) == pytest.approx(log(3) / 3 + log(2) + 1.5, rel=1e-6)
    codes = normal_codes(50, 6)
    assert entropy.koleo(3 * codes) == pytest.approx(entropy.koleo(codes).item() + 6 * log(3))


def test_koleo_gradient_pushes_nearest_neighbours_apart():
    z = torch.tensor([[0.0], [1.0]], requires_grad=True)
    entropy.koleo(z).backward()
    assert z.grad.flatten().tolist() == pytest.approx([-1, 1])


def test_koleo_of_one_code_says_what_is_needed():
    with pytest.raises(ValueError, match="at least 2"):
        entropy.koleo(torch.zeros(1, 3))


@pytest.mark.parametrize("name", entropy.__all__)
def test_entropy_is_larger_when_codes_are_more_spread(name):
    z = normal_codes(10, 64)
    values = [getattr(entropy, name)(scale * z).item() for scale in (0.25, 0.5, 1, 2)]
    assert values == sorted(values)
    assert values[-1] > values[0] + 0.1


@pytest.mark.parametrize("name", ["renyi", "koleo"])
def test_pairwise_entropies_ignore_where_the_codes_lie(name):
    z = normal_codes(40, 4)
    assert getattr(entropy, name)(z + 5) == pytest.approx(getattr(entropy, name)(z).item())


@pytest.mark.parametrize("name", entropy.__all__)
def test_collapsed_codes_give_finite_values_and_gradients(name):
    z = torch.zeros(6, 4, requires_grad=True)
    value = getattr(entropy, name)(z)
    value.backward()
    assert value.isfinite()
    assert z.grad.isfinite().all()
