"""Distance to the nearest normal codes: a reference distribution without a shape."""

import torch
from torch import Tensor

from normscope.training.method import Reference

NEIGHBOURS = 5
MOST_COMPONENTS = 256


def fit_neighbours(features: Tensor) -> Reference:
    """Features [n, d] by their principal components, half as many as there are features and 256 at the most, each
    divided by the root of its standard deviation: half-way between distances as they are and Mahalanobis distances."""
    mean = features.mean(0)
    components = max(1, min(MOST_COMPONENTS, len(features) // 2, features.shape[1]))
    _, length, directions = torch.pca_lowrank(features - mean, components, center=False)
    deviation = (length / len(features) ** 0.5).clamp(min=1e-3 * float(length.max()) + 1e-9)
    basis = directions / deviation.sqrt()
    return {"mean": mean, "basis": basis, "codes": (features - mean) @ basis}


def neighbour_distance(features: Tensor, reference: Reference) -> Tensor:
    """[n, d] → [n]."""
    mean, basis, codes = (reference[name].to(features) for name in ("mean", "basis", "codes"))
    return neighbours((features - mean) @ basis, codes, NEIGHBOURS)


def neighbours(codes: Tensor, normal: Tensor, k: int) -> Tensor:
    """Mean Euclidean distance of each code [n, d] to its k nearest of `normal` [m, d] → [n].

    Ours and not scikit-learn's: it runs on a GPU too, and in float64 no score depends on the batch.
    """
    wanted = min(k, len(normal))
    # In float64, because cdist subtracts numbers that are nearly equal, and rounds differently for other batches.
    near = [distances(part.double(), normal).topk(wanted, largest=False).values for part in codes.split(1024)]
    return torch.cat(near).mean(1).to(codes.dtype)


def distances(codes: Tensor, normal: Tensor) -> Tensor:
    """[n, m] in float64. A few of `normal` at a time: they would take twice the memory all at once, anew each time."""
    few = max(1, 2**20 // normal.shape[1])
    return torch.cat([torch.cdist(codes, some.double()) for some in normal.split(few)], 1)
