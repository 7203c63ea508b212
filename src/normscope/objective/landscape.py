"""What the objective prefers before any training: the best loss of idealised sparse codes, beside that of a collapse.

A setting of β, code size and clipping under which no such code beats the collapsed one cannot be trained by anyone.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from normscope.objective import Entropy
from normscope.objective.critics import BOUND
from normscope.objective.entropy import gaussian, gaussian_sum, l2, laplace, laplace_sum

NORMS = (laplace, laplace_sum, gaussian, gaussian_sum, l2)
HALVINGS = 12  # of β, in search of one that does not collapse

GRID = 2000  # clipped similarities tried between 0 and the bound


class Optimum(NamedTuple):
    """The best idealised code: its loss, its active entries and their value, all 0 where the collapse is best."""

    loss: float
    active: int
    value: float
    most_active: int  # the largest number of active entries whose best loss is still below the collapsed one
    collapsed: float  # the loss of codes that are all zero, log(2N − 1)

    @property
    def alive(self) -> bool:
        """Whether any idealised code beats the collapse."""
        return self.active > 0


def optimum(entropy: Entropy, beta: float, size: int, scale: float, images: int = 64) -> Optimum:
    """The lowest −(I − β·H) + log(2N − 1), i.e. L_nce + β·H of Algorithm 1, over codes with k of `size` entries active.

    Both views of an image have the same code; those of different images share no active entry, so that k is at most
    size / images. `entropy` must be a norm (`laplace`, `gaussian`, `l2` or a sum of these); `scale` is the paper's c1.
    """
    similarity = torch.linspace(0, BOUND, GRID + 1, dtype=torch.float64)[1:-1]
    collapsed = math.log(2 * images - 1)
    best = Optimum(collapsed, 0, 0.0, 0, collapsed)
    for active in range(1, size // images + 1):
        value = (scale * BOUND * torch.atanh(similarity / BOUND) / active).sqrt()
        loss = contrast_loss(similarity, images) + beta * penalties(entropy, value, active, size)
        place = int(loss.argmin())
        if loss[place] < collapsed:
            best = best._replace(most_active=active)
        if loss[place] < best.loss - 1e-9:  # squared norms do not depend on k: keep the fewest entries
            best = best._replace(loss=float(loss[place]), active=active, value=float(value[place]))
    return best


def contrast_loss(similarity: Tensor, images: int) -> Tensor:
    """L_nce where a positive has this clipped similarity and each of the 2N − 2 negatives has 0."""
    return torch.log1p((2 * images - 2) * torch.exp(-similarity))


def penalties(entropy: Entropy, values: Tensor, active: int, size: int) -> Tensor:
    """H of codes whose first `active` of `size` entries are the value, for each of the values [m] → [m].

    A norm, or its square, of a multiple is the multiple, or its square: two codes say it of all.
    """
    code = (torch.arange(size) < active).double()[None]
    once, twice = entropy(code), entropy(2 * code)
    return once * values ** (twice / once).log2().round()


def verdict(entropy: Entropy, beta: float | str, size: int, scale: float, images: int) -> str | None:
    """What to say before training if a collapse is the best that the objective has; None if not, or not known."""
    if isinstance(beta, str) or entropy not in NORMS or optimum(entropy, beta, size, scale, images).alive:
        return None
    smaller = [beta / 2**k for k in range(1, HALVINGS)]
    works = next((b for b in smaller if optimum(entropy, b, size, scale, images).alive), None)
    nearest = f"beta={works:.3g} has another" if works else "so it is at any beta"
    root = size**0.5
    if scale > root and optimum(entropy, beta, size, root, images).alive:
        nearest += ", and clip_scale=root has another at this beta"
    return (
        f"with codes of {size} entries, c1 = {scale:.4g} and beta = {beta:.4g} a collapsed code is the best that the "
        f"objective has; {nearest}"
    )
