"""Surprisal of every location of a map, under a Gaussian of its own fitted to that location of normal images."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from normscope.scoring.held_out import two_fold
from normscope.scoring.leave_one_out import squared_distance
from normscope.training.method import Reference

MOST_MAPS = 1000  # normal images that the Gaussians are fitted to
USUAL = 0.99
"""The share of normal images that are nowhere hotter than 1 in a heat map."""
TOGETHER = 64  # locations whose images are whitened at once
PRIOR = 0.1  # images for each channel, which the mean covariance of all locations counts as much as
SHARED = 0.05  # share of that covariance which is added everywhere, however many images there are
REGIONS = 12  # side by side in a heat map: log odds are averaged over one of them


def fit_heat(maps: Tensor) -> Reference:
    """`fit_local`, and the surprisal of the hottest location of a normal image in the other fold: its `mean`,
    `deviation`, and in `hot` what few exceed."""
    values = hottest(two_fold(maps, fit_local, local_surprisal))
    scale = {"mean": values.mean(), "deviation": values.std() + 1e-6, "hot": values.quantile(USUAL)}
    return {**fit_local(maps), **{f"hottest.{name}": value for name, value in scale.items()}}


def heat(maps: Tensor, reference: Reference) -> Tensor:
    """[n, c, h, w] → [n, h, w]: 99 of 100 normal images are below 1 everywhere."""
    return smooth(local_surprisal(maps, reference)) / reference["hottest.hot"]


def random_channels(total: int, most: int = 64) -> Tensor:
    """The channels that represent a location, drawn at random (PaDiM, Defard et al. 2021): [most], in order."""
    return torch.randperm(total)[:most].sort().values


def columns(maps: Sequence[Tensor], grid: Sequence[int]) -> Tensor:
    """Maps [n, c, h, w] of the same images at several scales, all brought to one grid → [n, Σc, *grid]."""
    return torch.cat([F.interpolate(x, tuple(grid), mode="bilinear", align_corners=False) for x in maps], 1)


def with_neighbours(maps: Tensor) -> Tensor:
    """Maps [n, c, h, w] averaged over 3 × 3 locations."""
    return F.avg_pool2d(maps, 3, stride=1, padding=1, count_include_pad=False)


def fit_local(maps: Tensor) -> Reference:
    """A Gaussian for each location of maps [n, c, h, w]: mean [h·w, c] and whitener [h·w, c, c], which is in half
    precision: it is most of a model file, and scores change by less than a thousandth.

    n images seldom determine c × c covariances. Each is therefore drawn towards the mean covariance of all locations,
    which counts as much as c / 10 images: the mean of the posterior under an inverse Wishart prior. And a twentieth of
    it is added, or a location where next to nothing varies would be the hottest at the slightest change.
    """
    n, c = maps.shape[:2]
    weight = PRIOR * c
    x = maps.flatten(2).permute(2, 0, 1).double()
    mean = x.mean(1, keepdim=True)
    covariance = torch.stack([(one - m).T @ (one - m) for one, m in zip(x, mean, strict=True)])
    common = covariance.mean(0) / n
    floor = 0.01 * common.diagonal().mean() + 1e-7
    prior = common + floor * torch.eye(c, dtype=common.dtype, device=common.device)
    lower = torch.linalg.cholesky((covariance + weight * prior) / (n + weight) + SHARED * prior)
    identity = torch.eye(c, dtype=lower.dtype, device=lower.device)
    whitener = torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)
    return {"mean": mean[:, 0].float(), "whitener": whitener.half()}


def local_surprisal(maps: Tensor, reference: Reference) -> Tensor:
    """[n, c, h, w] → [n, h, w]: the squared Mahalanobis distance of each location, divided by c: about 1 if normal."""
    n, _, *grid = maps.shape
    x = maps.flatten(2).permute(2, 1, 0) - reference["mean"].to(maps)[:, :, None]
    return (reference["whitener"].to(maps) @ x).square().mean(1).T.reshape(n, *grid)


def left_out_surprisal(changed: Tensor, origin: Tensor, maps: Tensor, reference: Reference) -> Tensor:
    """`local_surprisal` of changed versions [m, c, h, w] of images, under Gaussians fitted to all but the original.

    `origin` [m] says which of the maps [n, c, h, w] that the reference is fitted to is the original. The prior is left
    as it is: one image in n changes the mean covariance of all locations hardly.
    """
    n, c, *grid = maps.shape
    total = n + PRIOR * c
    by_location = [values.flatten(2).permute(2, 1, 0) for values in (maps, changed)]
    every = (*by_location, reference["mean"][:, :, None], reference["whitener"])
    distances = list[Tensor]()
    for x, y, mean, whitener in zip(*(values.split(TOGETHER) for values in every), strict=True):
        own, other = (whitener.to(x) @ (values - mean.to(x)) for values in (x, y))
        distances.append(squared_distance(other, own[..., origin], n, n / (n - 1) / total))
    return torch.cat(distances).T.reshape(-1, *grid) * ((total - 1) / total / c)


def smooth(maps: Tensor, width: int = 3) -> Tensor:
    """[n, h, w]: each location's mean with its neighbours, so that one noisy location does not decide.

    `width`, an odd number, is how many locations a side the mean is over."""
    return F.avg_pool2d(maps[:, None], width, stride=1, padding=width // 2, count_include_pad=False)[:, 0]


def hottest(maps: Tensor) -> Tensor:
    """[n, h, w] → [n]: the hottest location of each image."""
    return smooth(maps).flatten(1).amax(1)


def log_heat(odds: Tensor, surprisal: Tensor, warmth: Tensor) -> Tensor:
    """Of log odds of a defect [n, h, w], and of the surprisal of locations at a coarser grid."""
    fine = F.interpolate(smooth(surprisal)[:, None], odds.shape[1:], mode="bilinear", align_corners=False)[:, 0]
    width = min(odds.shape[1:]) // REGIONS // 2 * 2 + 1
    return warmth * smooth(odds, width) + fine.clamp(min=1e-3).log()


def peak(maps: Tensor) -> Tensor:
    """[n, h, w] → [n]."""
    return maps.flatten(1).amax(1)
