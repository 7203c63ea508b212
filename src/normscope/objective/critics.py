"""Critics: how alike two codes are, as the score an information estimator takes. `scale` is the paper's c1."""

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["dot", "cosine"]

BOUND = 20.0  # the paper's c2


def dot(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Soft-clipped dot products of codes [n, d] with codes [m, d] → [n, m]: the paper's Algorithm 1."""
    return soft_clip(a @ b.T, scale)


def cosine(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Cosine similarities of codes [n, d] with codes [m, d] → [n, m], divided by `scale` as the temperature."""
    return F.normalize(a, dim=1) @ F.normalize(b, dim=1).T / scale


def soft_clip(scores: Tensor, scale: float, bound: float = BOUND) -> Tensor:
    """bound·tanh(scores / (scale·bound)): nearly scores/scale when small, within ±bound always (AMDIM, the paper)."""
    return bound * torch.tanh(scores / (scale * bound))


def global_to_local(code: Tensor, local: Tensor, scale: float) -> Tensor:
    """Codes [n, d] against whole maps [m, d, h, w] → [n, m], summed over locations, then clipped: Algorithm 3."""
    return dot(code, local.sum((2, 3)), scale)


def global_to_each(code: Tensor, local: Tensor, scale: float) -> Tensor:
    """Codes [n, d] against every location of maps [m, d, h, w] → [n, m, h·w], Bachman et al. 2019 (AMDIM)."""
    return soft_clip(torch.einsum("nd,mdl->nml", code, local.flatten(2)), scale)


def contrast(scores: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
    """Splits scores [2n, 2n] of view one then view two into positive [2n] and negative [2n, 2n − 2] (Algorithm 1).

    The positive of row i is column i ± n; column i itself is left out; the order of a row's negatives is arbitrary.
    Where scores are some of the rows alone, [r, 2n], `first` is the first of them.
    """
    rows, size = scores.shape
    row = torch.arange(first, first + rows, device=scores.device)[:, None]
    step = torch.arange(1, size - 1, device=scores.device)
    step = step + (step >= size // 2)  # 1 … 2n − 1 without n: from row i, step 0 is itself and step n its positive
    return scores.gather(1, (row + size // 2) % size)[:, 0], scores.gather(1, (row + step) % size)


def contrast_each(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Splits scores [2n, 2n, l] of codes against locations into positive [2n·l] and negative [2n·l, (2n − 2)·l].

    Every location of the other view is a positive of its own, against all locations of all other images (AMDIM).
    """
    locations = scores.shape[2]
    positive, negative = zip(*(contrast(part) for part in scores.unbind(2)), strict=True)
    others = torch.stack(negative, 2).flatten(1)
    return torch.stack(positive, 1).flatten(), others.repeat_interleave(locations, 0)
