"""How long a fit goes on once training is over: from trials on a few images."""

import time
from typing import NamedTuple

import numpy as np

from normscope import inference
from normscope.training import loop
from normscope.training.encoded import Encoded
from normscope.training.method import Method

SMALL, LARGE = 16, 128  # images in a trial
MOST_SHARE = 0.02  # of the budget, for the large one


class Trial(NamedTuple):
    """How long `finish` and scoring take for so many images."""

    images: int
    finish: float
    score: float


def seconds_after_training(method: Method, images: Encoded, trained: int, searches: int, budget: float) -> float:
    """Seconds for the reference of so many training images and, unless there is none, for calibration and so many
    searches for outliers."""
    n, least = len(images), min(SMALL, len(images))
    trial(method, images, least)  # the first of all warms up
    small = trial(method, images, least)
    quick = LARGE / SMALL * (small.finish + small.score) < MOST_SHARE * budget
    large = trial(method, images, min(LARGE, n)) if quick and n > least else small._replace(images=0, finish=0, score=0)
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
    """Along the line through both."""
    share = (n - one.images) / (other.images - one.images)
    finish, score = (a + share * (b - a) for a, b in zip(one[1:], other[1:], strict=True))
    return Trial(n, max(finish, 0.0), max(score, 0.0))
