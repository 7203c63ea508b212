"""Triangular matrices in a model file: what is below their diagonal or above it is zero, and is left out."""

import math
from collections.abc import Mapping
from itertools import starmap

import torch
from torch import Tensor

LOWER, UPPER = ".lower", ".upper"  # at the end of the name of a matrix without what is above, or below, its diagonal


def packed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Square matrices [..., d, d] that are triangular become [..., d·(d + 1) / 2]; all else is as it was."""
    return dict(starmap(pack, tensors.items()))


def unpacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return dict(starmap(unpack, tensors.items()))


def pack(name: str, value: Tensor) -> tuple[str, Tensor]:
    if value.ndim < 2 or not value.shape[-1] == value.shape[-2] > 1:
        return name, value
    rows, columns = triangle(value.shape[-1])
    for end, one in ((LOWER, value), (UPPER, value.mT)):
        if not one.triu(1).any():
            return name + end, one[..., rows, columns]
    return name, value


def unpack(name: str, value: Tensor) -> tuple[str, Tensor]:
    if not name.endswith((LOWER, UPPER)):
        return name, value
    d = (math.isqrt(8 * value.shape[-1] + 1) - 1) // 2
    rows, columns = triangle(d)
    matrices = value.new_zeros(*value.shape[:-1], d, d)
    matrices[..., rows, columns] = value
    if name.endswith(LOWER):
        return name.removesuffix(LOWER), matrices
    return name.removesuffix(UPPER), matrices.mT.contiguous()


def triangle(d: int) -> tuple[Tensor, Tensor]:
    """Rows and columns of what is on the diagonal or below it."""
    rows, columns = torch.tril_indices(d, d)
    return rows, columns
