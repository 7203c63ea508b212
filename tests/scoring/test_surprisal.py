import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, spearmanr
from sklearn.covariance import ledoit_wolf
from sklearn.mixture import GaussianMixture

from normscope.scoring.surprisal import fit_gaussian, fit_mixture, gaussian, mixture
from normscope.training.randomness import seeded


def codes(n, d, seed=0):
    """Correlated, not centred, of unequal spread."""
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(d, d, generator=torch.Generator().manual_seed(99)) / d**0.5
    return torch.randn(n, d, generator=generator) @ mix * torch.linspace(0.1, 2, d) + 3


def fitted_mixture(z, components, seed=0):
    with seeded(seed):
        return fit_mixture(z, components)


def clusters(n, d=4, seed=0):
    """Three well parted ones."""
    which = torch.arange(n) % 3
    return codes(n, d, seed) + 10 * which[:, None]


@pytest.mark.parametrize(("n", "d"), [(500, 3), (20, 32)])
def test_gaussian_is_the_surprisal_in_nats_under_the_shrunk_covariance(n, d):
    normal, new = codes(n, d), codes(50, d, seed=1) + 0.5
    x = normal.double().numpy()
    exact = -multivariate_normal(x.mean(0), ledoit_wolf(x)[0]).logpdf(new.double().numpy())
    found = gaussian(new, fit_gaussian(normal))
    assert found.dtype == new.dtype
    # Variances are raised by a millionth of their mean; all else is the rounding of float32.
    np.testing.assert_allclose(found.numpy(), exact, rtol=2e-3, atol=2e-3)


def test_gaussian_surprisal_of_its_own_sample_is_near_the_entropy():
    """H of a d-dimensional standard normal is d/2·log(2πe) = 1.4189 d nats; surprisal has variance d/2."""
    z = torch.randn(4000, 4, generator=torch.Generator().manual_seed(0))
    found = gaussian(z, fit_gaussian(z)).mean()
    assert found == pytest.approx(4 * 1.4189, abs=4 * (4 / 2 / 4000) ** 0.5)


def test_gaussian_surprisal_grows_with_the_distance_from_the_mean():
    reference = fit_gaussian(codes(300, 8))
    away = reference["mean"] + torch.arange(5.0)[:, None] * torch.ones(8)
    assert gaussian(away, reference).diff().gt(0).all()


DEGENERATE = {
    "dead dimensions": torch.cat([codes(50, 4), torch.zeros(50, 4)], 1),
    "a repeated dimension": codes(50, 4).repeat(1, 2),
    "fewer codes than dimensions": codes(6, 40),
    "two codes": codes(2, 8),
    "duplicates": codes(3, 4).repeat(10, 1),
    "one point": torch.full((20, 4), 2.0),
    "all zero": torch.zeros(20, 4),
    "tiny": 1e-8 * codes(50, 4),
    "huge": 1e6 * codes(50, 4),
}


@pytest.mark.parametrize("z", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_degenerate_codes_have_finite_surprisal_and_strangers_more_of_it(z):
    far = z + 10 * z.abs().max() + 1
    for reference, surprisal in ((fit_gaussian(z), gaussian), (fitted_mixture(z, 4), mixture)):
        inside, outside = surprisal(z, reference), surprisal(far, reference)
        assert inside.isfinite().all()
        assert outside.isfinite().all()
        assert outside.min() > inside.max()


def test_a_dimension_that_never_varied_counts_when_it_does():
    z = torch.cat([codes(500, 4), torch.zeros(500, 1)], 1)
    reference = fit_gaussian(z)
    stranger = z[:1].clone()
    stranger[0, 4] = 1.0
    assert gaussian(stranger, reference) > gaussian(z, reference).max()


@pytest.mark.parametrize(("n", "components"), [(300, 4), (3, 4), (300, 1)])
def test_mixture_is_that_of_scikit_learn(n, components):
    z, new = clusters(n), clusters(60, seed=1)
    reference = fitted_mixture(z, components)
    x = z.double().numpy()
    same = GaussianMixture(min(n, components), reg_covar=0.1 * x.var(0).mean() + 1e-9, random_state=draw_of(0)).fit(x)
    np.testing.assert_allclose(reference["weights"], same.weights_, atol=1e-4)
    np.testing.assert_allclose(reference["means"], same.means_, rtol=1e-4)
    np.testing.assert_allclose(mixture(new, reference), -same.score_samples(new.double().numpy()), rtol=1e-3, atol=1e-3)


def draw_of(seed):
    """The seed that the mixture takes from torch's generator."""
    with seeded(seed):
        return int(torch.randint(2**31, ()))


def test_mixture_formula_on_parameters_of_ones_own():
    """Two unit Gaussians at ±1 in one dimension, weighted 0.25 and 0.75."""
    reference = {
        "weights": torch.tensor([0.25, 0.75]),
        "means": torch.tensor([[-1.0], [1.0]]),
        "whiteners": torch.ones(2, 1, 1),
    }
    z = torch.linspace(-3, 3, 7)[:, None]
    density = 0.25 * multivariate_normal(-1, 1).pdf(z.numpy()) + 0.75 * multivariate_normal(1, 1).pdf(z.numpy())
    np.testing.assert_allclose(mixture(z, reference), -np.log(density), rtol=1e-5)


def test_mixture_sees_the_gap_that_one_gaussian_does_not():
    z = clusters(300)
    gap = (z[0::3].mean(0) + z[1::3].mean(0))[None] / 2
    assert mixture(gap, fitted_mixture(z, 3)) > mixture(z, fitted_mixture(z, 3)).quantile(0.99)
    assert gaussian(gap, fit_gaussian(z)) < gaussian(z, fit_gaussian(z)).median()


def test_mixture_of_one_orders_nearly_as_the_gaussian():
    z, new = codes(400, 6), codes(200, 6, seed=1)
    order = spearmanr(mixture(new, fitted_mixture(z, 1)), gaussian(new, fit_gaussian(z)))
    assert order.statistic > 0.9


def test_mixture_follows_the_seed():
    z = codes(200, 6)
    first, again, other = (mixture(z, fitted_mixture(z, 4, seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other, atol=1e-3)


@pytest.mark.parametrize("surprisal", [gaussian, mixture])
def test_surprisal_does_not_depend_on_the_batch(surprisal):
    z = codes(200, 32)
    reference = fit_gaussian(z) if surprisal is gaussian else fitted_mixture(z, 4)
    alone = torch.cat([surprisal(code[None], reference) for code in z[:40]])
    torch.testing.assert_close(alone, surprisal(z, reference)[:40], rtol=1e-4, atol=1e-4)
