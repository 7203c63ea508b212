"""Distances under a Gaussian that was not fitted to the image in question, from the one fitted to all: no refits."""

from torch import Tensor

LEAST = 1e-3  # of a covariance is left without a vector, or what is left drowns in the error of its whitener


def squared_distance(changed: Tensor, own: Tensor, n: int, counts: float) -> Tensor:
    """[..., d, m] → [..., m]: squared Mahalanobis distances under a Gaussian fitted to all of n vectors but one.

    Both are whitened by the Gaussian of all: `own` [..., d, m] are the vectors to leave out, `changed` what is measured
    instead; give `own` twice for the distances of these themselves. `counts` is the share of a vector's square in the
    covariance Σ: without the vector v it is Σ − counts · v·vᵀ, the inverse of which Sherman and Morrison (1950) give,
    and the mean is v / (n − 1) away from that of all.
    """
    moved = changed + own / (n - 1)
    along = counts * (moved * own).sum(-2).square() / remaining(own, counts)
    return moved.square().sum(-2) + along


def remaining(own: Tensor, counts: float) -> Tensor:
    """[..., d, m] → [..., m]: the share of the determinant of the covariance that is left without the vector."""
    return (1 - counts * own.square().sum(-2)).clamp(min=LEAST)
