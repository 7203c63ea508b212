"""Two-fold scores of the images that a reference is fitted to: under the reference itself they would look too usual."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from normscope.training.method import Reference

FOLDS = 2


def two_fold(
    normal: Tensor, fit: Callable[[Tensor], Reference], surprisal: Callable[[Tensor, Reference], Tensor]
) -> Tensor:
    """Surprisal of each normal image under a reference fitted to the other fold; folds are every second image."""
    fold = torch.arange(len(normal), device=normal.device) % min(FOLDS, len(normal))
    parts = [surprisal(normal[fold == part], fit(normal[fold != part])) for part in fold.unique()]
    return in_order(parts, fold)


def two_fold_pair(
    normal: Tensor,
    changed: Sequence[Tensor],
    at: npt.NDArray[np.intp],
    fit: Callable[[Tensor], Reference],
    surprisal: Callable[[Tensor, Reference], Tensor],
) -> tuple[Tensor, Tensor]:
    """`two_fold`, and beside it what changed versions of the normal images `at` these places get, in batches, under the
    reference that did not see the original."""
    fold = torch.arange(len(normal), device=normal.device) % min(FOLDS, len(normal))
    rest = torch.cat([*changed]) if len(at) else normal[:0]
    own = fold[torch.from_numpy(at).to(fold.device)]
    usual, after = list[Tensor](), list[Tensor]()
    for one in fold.unique():
        reference = fit(normal[fold != one])
        usual.append(surprisal(normal[fold == one], reference))
        after.append(surprisal(rest[own == one], reference))
    return in_order(usual, fold), in_order(after, own)


def in_order(parts: Sequence[Tensor], fold: Tensor) -> Tensor:
    """The parts are of one fold each, [m, ...]; together [n, ...], where each is in `fold` [n]."""
    together = torch.cat([*parts])
    result = torch.empty_like(together)
    result[fold.argsort(stable=True)] = together
    return result
