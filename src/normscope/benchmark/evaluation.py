"""How a fitted model does on labelled images of one's own: AUROC, and what is flagged at the rates that it promises."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from normscope.benchmark.intervals import intervals
from normscope.benchmark.metrics import auroc
from normscope.calibration import Calibration

RATES = (0.01, 0.05)
LEVEL = 0.95

Scores = NDArray[np.float64]


class Share(NamedTuple):
    """How many of how many, the share, and its Wilson interval."""

    number: int
    of: int
    share: float
    interval: tuple[float, float]


class Flagged(NamedTuple):
    """What is flagged at a false-alarm rate: `asked` for, and in use."""

    asked: float
    rate: float
    threshold: float
    detection: Share  # of the bad images
    false_alarms: Share  # of the good ones


class Evaluation(NamedTuple):
    """The first of `flagged` is at the model's own rate; none without a calibration."""

    auroc: float
    interval: tuple[float, float]
    flagged: tuple[Flagged, ...]


def evaluate(good: Scores, bad: Scores, calibration: Calibration | None) -> Evaluation:
    """Of scores of good images [n] and of bad ones [m], none of which the model was fitted to."""
    scores, is_anomaly = np.concatenate([good, bad]), np.repeat([False, True], [len(good), len(bad)])
    found = intervals(scores, is_anomaly, level=LEVEL)["auroc"]
    rates = dict.fromkeys([calibration.rate, *RATES]) if calibration else ()
    at = tuple(flagged(good, bad, calibration.at(rate)) for rate in rates) if calibration else ()
    return Evaluation(auroc(scores, is_anomaly), found, at)


def flagged(good: Scores, bad: Scores, calibration: Calibration) -> Flagged:
    return Flagged(
        calibration.rate,
        calibration.achievable,
        calibration.threshold,
        detection=share(calibration.anomalous(bad)),
        false_alarms=share(calibration.anomalous(good)),
    )


def share(flags: Iterable[bool]) -> Share:
    """Of all flags, those that are up."""
    every = list(flags)
    count = int(sum(every))
    low, high = binomtest(count, len(every)).proportion_ci(LEVEL, method="wilson")
    return Share(count, len(every), count / len(every), (float(low), float(high)))
