"""Estimators of H(z) from codes [n, d]: each returns a scalar that is larger when the codes are more spread.

The first five are E[-log r(z)] up to constants for a reference r centred at zero: spread around the origin.
"""

import math

import torch
from torch import Tensor

__all__ = ["laplace", "laplace_sum", "gaussian", "gaussian_sum", "l2", "coding_rate", "renyi", "koleo"]


def laplace(codes: Tensor) -> Tensor:
    """Mean of |z| over images and dimensions: the paper's Laplace bound per dimension."""
    # The paper does not say sum or mean over dimensions; the mean puts both losses on one scale at its beta = 20.
    return codes.abs().mean()


def laplace_sum(codes: Tensor) -> Tensor:
    """Mean over images of the L1 norm: the paper's Laplace bound as written."""
    return codes.abs().sum(1).mean()


def gaussian(codes: Tensor) -> Tensor:
    """Mean of z² over images and dimensions: the paper's Gaussian bound per dimension."""
    return codes.square().mean()


def gaussian_sum(codes: Tensor) -> Tensor:
    """Mean over images of the squared L2 norm: the paper's Gaussian bound as written."""
    return codes.square().sum(1).mean()


def l2(codes: Tensor) -> Tensor:
    """Mean over images of the plain L2 norm: the paper's Algorithm 1 with q = 2."""
    # The paper writes ||z||_2 in Algorithm 1 and ||z||_2^2 in its Gaussian bound; this is Algorithm 1.
    norm: Tensor = codes.norm(dim=1)
    return norm.mean()


def coding_rate(codes: Tensor, *, eps: float = 0.5) -> Tensor:
    """Nats to code z up to a squared error eps², ½ logdet(I + d/(n·eps²)·ZᵀZ), Ma et al. 2007, Yu et al. 2020."""
    n, d = codes.shape
    # Sylvester: ZᵀZ and ZZᵀ give the same determinant, so take the smaller. Not centred, as in the papers.
    gram = codes @ codes.T if n < d else codes.T @ codes
    return 0.5 * torch.logdet(torch.eye(len(gram)).to(gram) + d / (n * eps**2) * gram)


def renyi(codes: Tensor) -> Tensor:
    """Matrix-based Rényi entropy of order 2 in nats, Sánchez Giraldo et al. 2015; between 0 and log n."""
    # -log tr(A²), A = K/n, with the Gaussian kernel K = exp(-||z_i - z_j||² / 2d). The width √d keeps unit-variance
    # codes away from saturation at every d; with a fixed width 512-dimensional codes would all count as far apart.
    n, d = codes.shape
    z = codes - codes.mean(0)  # distances are unchanged and their rounding error shrinks
    square = z.square().sum(1)
    distance = (square[:, None] + square - 2 * z @ z.T).clamp_min(0).fill_diagonal_(0)
    return 2 * math.log(n) - (-distance / d).flatten().logsumexp(0)


def koleo(codes: Tensor) -> Tensor:
    """Differential entropy in nats from nearest neighbours, Kozachenko & Leonenko 1987; may be negative."""
    n, d = codes.shape
    if n < 2:
        raise ValueError(f"koleo was given {n} code and needs a neighbour for each; use batches of at least 2")
    with torch.no_grad():
        nearest = torch.cdist(codes, codes).fill_diagonal_(math.inf).argmin(1)
    radius: Tensor = (codes - codes[nearest]).norm(dim=1).clamp_min(1e-6)  # identical codes: finite, no gradient
    unit_ball = d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1)
    # ψ(n) − ψ(1) = Σ 1/k up to n − 1. Sablayrolles et al. 2019 keep only the mean log radius, with the sign turned.
    return d * radius.log().mean() + unit_ball + sum(1 / k for k in range(1, n))
