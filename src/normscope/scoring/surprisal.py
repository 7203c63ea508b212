"""Surprisal −log r(z), in nats, under a reference distribution r fitted to the codes of normal images."""

import math

import torch
from torch import Tensor

from normscope.scoring.leave_one_out import remaining, squared_distance
from normscope.training.method import Reference, part


def fit_gaussian(codes: Tensor) -> Reference:
    """A Gaussian with full covariance, shrunk towards a multiple of the identity (Ledoit & Wolf 2004)."""
    from sklearn.covariance import ledoit_wolf  # here, for a model that scores needs none of it

    x = codes.double().cpu()
    covariance = torch.from_numpy(ledoit_wolf(x.numpy())[0])
    return {"mean": x.mean(0).float(), "whitener": _whitener(covariance).float()}


def gaussian(codes: Tensor, reference: Reference) -> Tensor:
    """[n, d] → [n]: half the squared Mahalanobis distance and the log normaliser."""
    return -_log_density(codes, reference["mean"], reference["whitener"])


def left_out_gaussian(changed: Tensor, origin: Tensor, codes: Tensor, reference: Reference) -> Tensor:
    """`gaussian` of changed versions [m, d] of codes, each under a Gaussian fitted to all but the original.

    `origin` [m] says which of the codes [n, d] that the reference is fitted to is the original. The covariance is
    shrunk as that of all codes is.
    """
    from sklearn.covariance import ledoit_wolf_shrinkage

    n, d = codes.shape
    counts = (1 - float(ledoit_wolf_shrinkage(codes.double().cpu().numpy()))) / (n - 1)
    mean, whitener = reference["mean"].to(codes), reference["whitener"].to(codes)
    own, other = (whitener.T @ (x - mean).T for x in (codes[origin], changed))
    log_volume = whitener.diagonal().log().sum() - 0.5 * remaining(own, counts).log()
    return 0.5 * (squared_distance(other, own, n, counts) + d * math.log(2 * math.pi)) - log_volume


def fit_gaussians(codes: Tensor, d: int) -> Reference:
    """A Gaussian for each d entries of codes [n, k·d]."""
    fitted = map(fit_gaussian, codes.split(d, 1))
    return {f"{place}.{name}": value for place, one in enumerate(fitted) for name, value in one.items()}


def gaussians(codes: Tensor, reference: Reference, d: int) -> Tensor:
    """[n, k·d] → [n, k]."""
    every = enumerate(codes.split(d, 1))
    return torch.stack([gaussian(one, part(reference, str(place))) for place, one in every], 1)


def fit_mixture(codes: Tensor, components: int) -> Reference:
    """A mixture of full-covariance Gaussians, by expectation maximisation; regularised by a tenth of the variance."""
    from sklearn.mixture import GaussianMixture

    x = codes.double().cpu().numpy()
    seed = int(torch.randint(2**31, ()))
    regular = 0.1 * float(x.var(0).mean()) + 1e-9
    distinct = len(codes.unique(dim=0))  # more components than that would share a code
    fitted = GaussianMixture(min(components, distinct), reg_covar=regular, random_state=seed).fit(x)
    whiteners = torch.stack([_whitener(torch.from_numpy(c)) for c in fitted.covariances_])
    return {
        "weights": torch.from_numpy(fitted.weights_).float(),
        "means": torch.from_numpy(fitted.means_).float(),
        "whiteners": whiteners.float(),
    }


def mixture(codes: Tensor, reference: Reference) -> Tensor:
    """[n, d] → [n]."""
    parts = [
        _log_density(codes, mean, whitener) + weight.log()
        for weight, mean, whitener in zip(reference["weights"], reference["means"], reference["whiteners"], strict=True)
    ]
    return -torch.stack(parts).logsumexp(0)


def _whitener(covariance: Tensor) -> Tensor:
    """W with W·Wᵀ the inverse covariance; a variance of zero, as codes that never vary have, is floored."""
    identity = torch.eye(len(covariance), dtype=covariance.dtype)
    floor = 1e-6 * covariance.diagonal().mean() + 1e-12
    lower = torch.linalg.cholesky(covariance + floor * identity)
    return torch.linalg.solve_triangular(lower, identity, upper=False).T.contiguous()


def _log_density(codes: Tensor, mean: Tensor, whitener: Tensor) -> Tensor:
    white = (codes - mean.to(codes)) @ whitener.to(codes)
    log_volume = whitener.diagonal().log().sum()
    return log_volume.to(codes) - 0.5 * (white.square().sum(1) + codes.shape[1] * math.log(2 * math.pi))
