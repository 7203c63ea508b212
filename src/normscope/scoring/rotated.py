"""Surprisal of an image's features in each of its rotations, on the scale of normal images."""

import torch
from torch import Tensor

from normscope.scoring.held_out import two_fold
from normscope.scoring.surprisal import fit_gaussian, gaussian
from normscope.training.method import Reference, part


def fit_rotated(features: Tensor) -> Reference:
    """A Gaussian for each of r rotations of features [n, r, d], and mean and deviation [r] of held-out surprisals."""
    every = features.unbind(1)
    fitted = {f"{turn}.{name}": value for turn, x in enumerate(every) for name, value in fit_gaussian(x).items()}
    usual = torch.stack([two_fold(x, fit_gaussian, gaussian) for x in every], 1)
    return {**fitted, "mean": usual.mean(0), "deviation": usual.std(0) + 1e-6}


def rotated_surprisal(features: Tensor, reference: Reference) -> Tensor:
    """[n, r, d] → [n]: the mean over rotations, in standard deviations of normal images."""
    every = enumerate(features.unbind(1))
    surprisals = torch.stack([gaussian(x, part(reference, str(turn))) for turn, x in every], 1)
    return ((surprisals - reference["mean"].to(surprisals)) / reference["deviation"].to(surprisals)).mean(1)
