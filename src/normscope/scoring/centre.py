"""Distance to a centre: the score of Deep SVDD and Deep SAD (Ruff et al. 2018, 2020)."""

import torch
from torch import Tensor

LEAST_CENTRE = 0.1


def centre_of(codes: Tensor) -> Tensor:
    """The mean of codes [n, d]; entries near 0, which zero weights would reach, are moved to ±0.1."""
    mean = codes.float().mean(0)
    least = torch.where(mean < 0, -LEAST_CENTRE, LEAST_CENTRE)
    return torch.where(mean.abs() < LEAST_CENTRE, least, mean)


def squared_distance(codes: Tensor, centre: Tensor) -> Tensor:
    """[n, d] → [n]."""
    return (codes - centre).square().sum(1)
