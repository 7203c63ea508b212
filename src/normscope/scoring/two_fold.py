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
    result = torch.empty(len(normal), *parts[0].shape[1:], dtype=parts[0].dtype, device=normal.device)
    for part, values in enumerate(parts):
        result[fold == part] = values
    return result


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
    usual, after = torch.empty(len(normal)).to(normal), torch.empty(len(at)).to(normal)
    rest = torch.cat([*changed]) if len(at) else normal[:0]
    own = fold[torch.from_numpy(at).to(fold.device)]
    for one in fold.unique():
        reference = fit(normal[fold != one])
        usual[fold == one] = surprisal(normal[fold == one], reference)
        after[own == one] = surprisal(rest[own == one], reference)
    return usual, after
