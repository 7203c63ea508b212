"""Two-fold scores of the images that a reference is fitted to: under the reference itself they would look too usual."""

from collections.abc import Callable

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
