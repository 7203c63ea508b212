"""Which of the images that were given as normal may not be: those that score far above the rest."""

import math
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from normscope.folds import held_out
from normscope.images.store import Store
from normscope.training.encoded import Encoded
from normscope.training.method import Method

FENCE = 6.0  # times as far above the median as the upper quartile is
MOST_SHARE = 0.01  # of all images, that the fence alone names
FAR = 4.0  # standard deviations: whatever lies beyond is named, however many there are
GROSS = 20.0  # the fence beyond which the same is true
TRIMMED = 0.25  # of the images, that references are not fitted to when outliers are left out
ROUNDS = 3
LOOKING = "looking for outliers"  # what the observer is told
QUARTILE = NormalDist().inv_cdf(0.75)

Scores = npt.NDArray[np.float64]


class Outlier(NamedTuple):
    """An image by its position among those that could be read, its file if it came from one, and its score."""

    position: int
    path: Path | None
    score: float


def find_outliers(normal: Store, *scores: Scores) -> list[Outlier]:
    """By scores [n] under references that were fitted to other images; the last count, where there are several."""
    paths, last = normal.paths or [None] * len(normal), scores[-1]
    return [Outlier(int(index), paths[index], float(last[index])) for index in above_the_fence(*scores)]


def trimmed(
    method: Method, images: Encoded, folds: npt.NDArray[np.intp], seed: int, scores: Scores
) -> tuple[npt.NDArray[np.bool_], Scores]:
    """Which images agree best, the share 1 − `TRIMMED`, and scores of all under references fitted to those alone.

    From held-out scores of all images: the highest are left out, all are scored again, and so on (the concentration
    steps of Rousseeuw & van Driessen 1999). Many outliers that are like each other hide one another no longer.
    """
    kept = np.ones(len(scores), bool)
    for _ in range(ROUNDS):
        before, kept = kept, scores <= np.quantile(scores, 1 - TRIMMED)
        if (before == kept).all():
            break
        _, scores = held_out(method, images, folds, seed, LOOKING, kept)
    return scores <= np.quantile(scores, 1 - TRIMMED), scores


def above_the_fence(*every: Scores) -> npt.NDArray[np.intp]:
    """Indices of scores far above the rest, the highest first; what is `far` in any of several, too.

    Of a clean folder, one image in a hundred at most: the highest hundredth, as far as it lies beyond the fence. There
    is no limit to the number of those that are far; fewer than 1 % of normal, exponential, log-normal and Student (five
    degrees of freedom) scores are.
    """
    scores = every[-1]
    order = np.argsort(-scores, kind="stable")
    top = np.arange(len(scores)) < int(MOST_SHARE * len(scores))
    beyond = np.any([far(one) for one in every], axis=0)
    return order[(top & above(scores, FENCE)[order]) | beyond[order]]


def far(scores: Scores) -> npt.NDArray[np.bool_]:
    """Whether each of scores [n] is beyond `FAR` deviations of those that are not, or beyond the fence `GROSS`: of few
    scores, whose quartiles say little of their law, even one that is far from all others may not be beyond the first.
    """
    beyond = np.zeros(len(scores), bool)
    for _ in range(ROUNDS):
        beyond = deviations(scores, scores[~beyond]) > FAR
    return beyond | above(scores, GROSS)


def above(scores: Scores, fence: float) -> npt.NDArray[np.bool_]:
    """Whether each is more than so many times as far above the median as the upper quartile is."""
    middle, upper = np.quantile(scores, [0.5, 0.75])
    return np.asarray((scores - middle > fence * (upper - middle)) & (upper > middle))


def deviations(scores: Scores, usual: Scores) -> Scores:
    """By how many standard deviations scores [n] exceed the median, if `usual` ones follow a shifted log-normal law.

    That law (Tukey's g distribution) goes through the three quartiles, which stay about where they are when a tenth of
    the images are anomalies. It is a normal one where scores are not skewed to the right.
    """
    lower, middle, upper = np.quantile(usual, [0.25, 0.5, 0.75])
    up, down = upper - middle, middle - lower
    if min(up, down) <= 0:
        return np.zeros(len(scores))
    if up <= down:
        return np.asarray((scores - middle) / down * QUARTILE)
    skewness = math.log(up / down) / QUARTILE
    over = np.maximum(scores - middle, 0) / up * math.expm1(skewness * QUARTILE)
    return np.asarray(np.log1p(over) / skewness)
