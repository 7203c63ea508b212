"""How long a fit goes on once training is over: from trials on a few images."""

import time
from typing import NamedTuple

import numpy as np

from normscope import inference
from normscope.training import loop
from normscope.training.encoded import Encoded
from normscope.training.method import Method

SMALL, MIDDLE, LARGE = 16, 32, 128  # images in a trial
MOST_SHARE = 0.05  # of the budget, for the large one


class Trial(NamedTuple):
    """How long `finish` and scoring take for so many images."""

    images: int
    finish: float
    score: float


def seconds_after_training(method: Method, images: Encoded, trained: int, searches: int, budget: float) -> float:
    """Seconds for the reference of so many training images and, unless there is none, for calibration and so many
    searches for outliers."""
    n = len(images)
    small, large = (trial(method, images, min(some, n)) for some in (SMALL, MIDDLE))
    further = extrapolated(small, large, LARGE)
    if n > LARGE and further.finish + further.score < MOST_SHARE * budget:  # the first of all warmed up
        small, large = large, trial(method, images, LARGE)
    total = extrapolated(small, large, min(trained, method.most_references or trained)).finish
    if searches:
        total += extrapolated(small, large, n - trained).score
    if method.scores_quickly:  # two-fold
        total += searches * (2 * extrapolated(small, large, n // 2).finish + extrapolated(small, large, n).score)
    return total


def trial(method: Method, images: Encoded, n: int) -> Trial:
    some, began = images.subset(np.arange(n)), time.perf_counter()
    reference = loop.finish(method, some, seed=0)
    finished = time.perf_counter()
    inference.scores(method, reference, some)
    return Trial(n, finished - began, time.perf_counter() - finished)


def extrapolated(one: Trial, other: Trial, n: int) -> Trial:
    """Along the line through both; more images never take less."""
    share = (n - one.images) / max(1, other.images - one.images)
    finish, score = (a + share * max(0.0, b - a) for a, b in zip(one[1:], other[1:], strict=True))
    return Trial(n, max(finish, 0.0), max(score, 0.0))
