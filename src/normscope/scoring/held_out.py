"""What a reference fitted to some normal images says of others: images it was fitted to look too usual to it."""

from collections.abc import Callable

import torch
from torch import Tensor

from normscope.scoring.surprisal import Memory

FOLDS = 2


def held_out(normal: Tensor, fit: Callable[[Tensor], Memory], surprisal: Callable[[Tensor, Memory], Tensor]) -> Tensor:
    """Each normal image's surprisal under a reference fitted without it: every second one, then the others."""
    fold = torch.arange(len(normal), device=normal.device) % min(FOLDS, len(normal))
    parts = [surprisal(normal[fold == part], fit(normal[fold != part])) for part in fold.unique()]
    result = torch.empty(len(normal), *parts[0].shape[1:], dtype=parts[0].dtype, device=normal.device)
    for part, found in enumerate(parts):
        result[fold == part] = found
    return result
