"""Log odds of a defect at every location of an image: what the heads are fitted to, and their held-out maps."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from normscope.scoring.combination import share_found
from normscope.scoring.defects import Rows, fit_heads, hottest, logits, rows_at
from normscope.scoring.held_out import random_folds
from normscope.scoring.layout import Layout
from normscope.scoring.local import smooth
from normscope.training.method import Batches, Reference
from normscope.views.defects import defective

ROWS = 150  # of an image, at most, for the head
COVERED = 0.15  # share of a location that a defect must cover to count as one
TOGETHER = 2  # images whose fine maps are worked on at once: those of more leave the processor's cache


class Fitted(NamedTuple):
    """A part of the score: what is fitted to all images, held-out scores or maps of normal images and of those with
    self-made defects, and the share of these that it finds."""

    reference: Reference
    normal: Tensor
    defects: Tensor
    found: Tensor


class Pairs(NamedTuple):
    """Images as they are and, so many times over, with self-made defects, each with the held-out surprisals [n, h, w]
    of its locations."""

    normal: Batches
    surprisal: Tensor
    defects: Batches
    surprisal_of_defects: Tensor
    times: int


def with_defects(images: Tensor, grid: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """The images with self-made defects, and what `drawn` takes apart again: the family of each, and the share of each
    location that they cover."""
    changed, where, family = defective(images)
    covered = F.adaptive_avg_pool2d(where[:, None].float(), grid)
    return changed, torch.cat([family[:, None], covered.flatten(1)], 1)


def drawn(encoded: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """The family [n] of self-made defects, and the share [n, h, w] of each location that they cover."""
    behind = layout.behind(encoded)
    return behind[:, 0], behind[:, 1:].unflatten(1, layout.finest)


def fit_defects(pairs: Pairs, layout: Layout) -> Fitted | None:
    """The heads: `normal` are log odds of a defect, [n, h, w], by others that did not see the image; None if too few
    defects can be seen.

    What they have `found` is what others find when fitted to images with the other family of defects: real ones are
    like neither.
    """
    rows, n = rows_of(pairs, layout), len(pairs.surprisal)
    fold = random_folds(n).numpy()
    every, fold_of_rows = np.unique(fold), np.tile(fold, pairs.times)
    choices = [np.flatnonzero(fold_of_rows != one) for one in every]
    choices += [np.flatnonzero(rows.family != one) for one in (0, 1)] + [np.arange(len(fold_of_rows))]
    if not all(any(len(rows.defects[i]) for i in choice) for choice in choices):
        return None
    *of_folds, without_first, without_second, heads = fit_heads(rows, choices)
    odds = torch.empty(n, *layout.finest).to(pairs.surprisal)
    for one, unseen in zip(every, of_folds, strict=True):
        own = np.flatnonzero(fold == one)
        odds[own] = defect_maps(pairs.normal.subset(own), pairs.surprisal[own], unseen, layout)
    scores = torch.empty(2, n).to(odds)
    for family, unseen in enumerate((without_first, without_second)):
        own = np.flatnonzero(rows.family[:n] == family)
        normal = defect_maps(pairs.normal.subset(own), pairs.surprisal[own], unseen, layout)
        changed = defect_maps(pairs.defects.subset(own), pairs.surprisal_of_defects[own], unseen, layout)
        scores[:, own] = torch.stack([hottest(normal), hottest(changed)])
    return Fitted(heads, odds, odds[:0], share_found(*scores))


def rows_of(pairs: Pairs, layout: Layout) -> Rows:
    """Of each image: at locations of it as it was and far from its defects, and at these."""
    normal, positive, families = list[Tensor](), list[Tensor](), list[Tensor]()
    as_it_was = beside(pairs.normal.repeated(pairs.times), pairs.surprisal.repeat(pairs.times, 1, 1))
    changed = beside(pairs.defects, pairs.surprisal_of_defects)
    for one, other in zip(as_it_was, changed, strict=True):
        maps, (family, covered) = evidence(*other, layout), drawn(other[0], layout)
        far = F.max_pool2d(covered[:, None], 5, 1, 2)[:, 0] == 0
        anywhere = rows_at(evidence(*one, layout), torch.ones_like(far), ROWS)
        normal += map(torch.cat, zip(anywhere, rows_at(maps, far, ROWS), strict=True))
        positive += rows_at(maps, covered > COVERED, ROWS)
        families.append(family)
    return Rows(normal, positive, torch.cat(families).cpu().numpy())


def evidence(encoded: Tensor, surprisal: Tensor, layout: Layout) -> list[Tensor]:
    """What the head judges locations by, [n, c, h, w] of several scales: the maps, and the surprisal [n, h, w] of
    locations by themselves and with their neighbours."""
    return [*layout.maps(encoded), torch.stack([surprisal, smooth(surprisal)], 1).clamp(min=1e-3).log()]


def defect_maps(images: Batches, surprisal: Tensor, heads: Reference, layout: Layout) -> Tensor:
    """`defect_map` of all batches."""
    found = (defect_map(encoded, one, heads, layout) for encoded, one in beside(images, surprisal))
    return torch.cat([surprisal.new_empty(0, *layout.finest), *found])


def defect_map(encoded: Tensor, surprisal: Tensor, heads: Reference, layout: Layout) -> Tensor:
    """[n, h, w]: log odds of a defect at every location; few images at a time, for their fine maps are large."""
    few = zip(encoded.split(TOGETHER), surprisal.split(TOGETHER), strict=True)
    return torch.cat([logits(evidence(*pair, layout), heads) for pair in few])


def beside(batches: Batches, values: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Each batch, and of values [n, ...] those of its images."""
    start = 0
    for batch in batches:
        yield batch, values[start : start + len(batch)]
        start += len(batch)
