"""Held-out scores of the images that a reference is fitted to: under the reference itself they would look too usual."""

from collections.abc import Callable

import torch
from torch import Tensor

from normscope.training.method import Reference

FEWEST, MOST = 4, 16
ENOUGH = 400  # images that the references of all folds are fitted to, about: few images are in more folds

Fit = Callable[[Tensor], Reference]
Score = Callable[[Tensor, Reference], Tensor]


def fold_count(n: int) -> int:
    return min(n, MOST, max(FEWEST, ENOUGH // max(n, 1)))


def random_folds(n: int) -> Tensor:
    """The fold of each of n images, [n]; of equal sizes."""
    return torch.randperm(n) % fold_count(n)


def two_fold(normal: Tensor, fit: Fit, score: Score) -> Tensor:
    """Scores of normal images [n, ...], each under a reference fitted to the other fold; folds are every second one."""
    fold = torch.arange(len(normal), device=normal.device) % min(2, len(normal))
    return held_out(normal, fold, fit, score)


def held_out(normal: Tensor, fold: Tensor, fit: Fit, score: Score) -> Tensor:
    """Scores of normal images [n, ...], each under a reference fitted to those of the other folds."""
    return held_out_pair(normal, fold, normal[:0], fold[:0], fit, score)[0]


def held_out_pair(
    normal: Tensor, fold: Tensor, changed: Tensor, changed_fold: Tensor, fit: Fit, score: Score
) -> tuple[Tensor, Tensor]:
    """`held_out`, and beside it what changed versions of normal images get, under the reference that did not see the
    original: each is in the fold of that."""
    usual, unusual = list[Tensor](), list[Tensor]()
    for one in fold.unique():
        reference = fit(normal[fold != one])
        usual.append(score(normal[fold == one], reference))
        unusual.append(score(changed[changed_fold == one], reference))
    return in_order(usual, fold), in_order(unusual, changed_fold)


def in_order(parts: list[Tensor], fold: Tensor) -> Tensor:
    """The parts are of one fold each, [m, ...]; together [n, ...], where each is in `fold` [n]."""
    together = torch.cat(parts)
    result = torch.empty_like(together)
    result[fold.argsort(stable=True)] = together
    return result
