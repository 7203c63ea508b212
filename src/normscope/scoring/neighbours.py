"""Distance to the nearest normal codes: a reference distribution without a shape."""

import torch
from torch import Tensor


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
