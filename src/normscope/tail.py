"""How often normal images score so high that hardly any of the calibration set does: an estimate, not a promise."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import smirnov

Scores = npt.NDArray[np.float64]

FEWEST = 20  # scores: of fewer there is no estimate
SHARE, FEWEST_ABOVE = 0.1, 8  # of the scores that make the tail
HEAVIEST = 0.5  # shape
POOR_FIT = 0.1  # p-value; the parameters are fitted to the same scores, so that one in fifty good fits has less
LEAST = 1e-9  # no estimate is smaller: nobody has seen that many images


class Tail(NamedTuple):
    """A generalised Pareto distribution of what the scores above `start`, the share `above` of all, exceed it by."""

    start: float
    above: float
    shape: float
    scale: float

    def exceeded(self, scores: Scores) -> Scores:
        """How likely a normal image is to score higher than each of scores [n]; meant for those above `start`."""
        chances = self.above * survival(scores - self.start, self.shape, self.scale)
        return np.asarray(np.maximum(chances, LEAST), np.float64)


def survival(over: Scores, shape: float, scale: float) -> Scores:
    """How likely a generalised Pareto distribution, of a shape above 0, makes it to exceed each."""
    return np.asarray((1 + shape * np.maximum(over, 0) / scale) ** (-1 / shape))


def fit_tail(scores: Scores) -> Tail | None:
    """Of sorted scores [m] by probability-weighted moments (Hosking & Wallis 1987), steadier than the likelihood here.

    None if there are too few scores, or the upper ones do not follow the distribution (Kolmogorov-Smirnov). The chance
    of exceeding the 99.9 % quantile of normal, exponential and log-normal scores is right within a factor of 3 for 200
    scores and more (median over draws), of 4 for 100, of 5 for 50 and of 10 for 24; of short tails it is too high.
    """
    m = len(scores)
    count = max(FEWEST_ABOVE, round(SHARE * m))
    if m < FEWEST:
        return None
    start, over = scores[m - count - 1], scores[m - count :] - scores[m - count - 1]
    mean = over.mean()
    rest = 1 - (np.arange(1, count + 1) - 0.35) / count  # how many of these exceed each of them, about
    weighted = (rest * over).mean()
    if not mean > 2 * weighted:  # it is in theory; where scores are equal it may not be
        return None
    # At least the shape of what is known of an exponential tail from so many scores (its predictive distribution).
    shape = float(np.clip(2 - mean / (mean - 2 * weighted), 1 / count, HEAVIEST))
    scale = float(mean * (1 - shape))
    if fit_p_value(1 - survival(over, shape, scale)) < POOR_FIT:
        return None
    return Tail(float(start), (count + 1) / (m + 1), shape, scale)


def fit_p_value(chances: Scores) -> float:
    """Of the Kolmogorov-Smirnov test, for what a distribution says of the chance to be below each of sorted values.

    Twice that of the one-sided test, which for a poor fit is that of the two-sided one. scipy.stats has both this and
    the distribution, but takes long to import, and every command that scores comes here.
    """
    n = len(chances)
    steps = np.arange(n + 1) / n
    farthest = max((steps[1:] - chances).max(), (chances - steps[:-1]).max())
    return min(1.0, 2 * float(smirnov(n, farthest)))
