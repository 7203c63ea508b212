"""Held-out scores of the images that a reference is fitted to: under the reference itself they would look too usual."""

from collections.abc import Callable

import torch
from torch import Tensor

from normscope.training.method import Reference

FEWEST, MOST = 4, 16
ENOUGH = 1600  # images that the references of all folds are fitted to, about: few images are in more folds

MANY = 100  # images: one of them changes what all share little enough

Fit = Callable[[Tensor], Reference]
Score = Callable[[Tensor, Reference], Tensor]
LeftOut = Callable[[Tensor, Tensor, Tensor, Reference], Tensor]


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
    return by_folds(normal, fold, normal[:0], fold[:0], fit, score)[0]


def held_out_pair(
    normal: Tensor, changed: Tensor, origin: Tensor, fit: Fit, score: Score, left_out: LeftOut
) -> tuple[Reference, Tensor, Tensor]:
    """A reference fitted to normal images [n, ...]; their scores, each under one that did not see it; and those of
    changed versions [m, ...], under one that did not see the original, which `origin` [m] names.

    `left_out` has the scores under the reference without the original, from that of all images; of few images, where it
    is too rough, references are fitted to folds.
    """
    reference, n = fit(normal), len(normal)
    if n >= MANY:
        both = ((normal, torch.arange(n)), (changed, origin))
        usual, unusual = (left_out(images, own, normal, reference) for images, own in both)
        return reference, usual, unusual
    fold = random_folds(n).to(normal.device)
    return reference, *by_folds(normal, fold, changed, fold[origin], fit, score)


def by_folds(
    normal: Tensor, fold: Tensor, changed: Tensor, changed_fold: Tensor, fit: Fit, score: Score
) -> tuple[Tensor, Tensor]:
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
