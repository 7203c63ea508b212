"""The axis of a histogram of scores: even near normal scores, compressed far from them, so that both can be seen."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Axis", "make_axis"]

Scores = npt.NDArray[np.float64]

MARGIN = 0.02  # of the axis, left free at both ends
APART = 0.09  # of the axis, at least, between two ticks


@dataclass(frozen=True)
class Axis:
    """A score s is at asinh((s − centre) / width), brought to 0..1 by `low` and `high`."""

    centre: float
    width: float
    low: float
    high: float

    def position(self, scores: npt.ArrayLike) -> Scores:
        """0 at the left end, 1 at the right."""
        bent = np.arcsinh((np.asarray(scores, np.float64) - self.centre) / self.width)
        return np.asarray((bent - self.low) / (self.high - self.low))

    def score(self, position: float) -> float:
        return self.centre + self.width * math.sinh(self.low + position * (self.high - self.low))

    @property
    def decimals(self) -> int:
        """With so many decimals, scores that differ by a thousandth of the axis near its centre differ in print."""
        return int(np.clip(2 - math.floor(math.log10(self.width)), 0, 12))

    def ticks(self) -> list[float]:
        """Round scores, far enough apart for their labels; three of the axis' own if it has no round ones."""
        found: list[float] = []
        for one in round_numbers(self.score(0), self.score(1)):
            if all(abs(self.position(one) - self.position(other)) >= APART for other in found):
                found.append(one)
        if len(found) < 3:
            found = [round(self.score(position), self.decimals) for position in (0.1, 0.5, 0.9)]
        return sorted(found)


def make_axis(scores: Scores, normal: Scores) -> Axis:
    """An axis for all scores, even where the normal ones are (or those in the middle, if none are known to be)."""
    reference = normal if len(normal) else scores
    low, centre, high = np.quantile(reference, [0.1, 0.5, 0.9])
    every = np.concatenate([scores, normal])
    smallest = 1e-6 * max(1.0, float(np.abs(every).max()))  # if all scores are the same
    width = max(float(high - low), float(np.ptp(every)) / 1e4, smallest)
    ends = np.arcsinh((np.array([every.min(), every.max()]) - centre) / width)
    margin = max(float(np.ptp(ends)) * MARGIN, 0.05)
    return Axis(float(centre), width, float(ends[0] - margin), float(ends[1] + margin))


def round_numbers(low: float, high: float) -> Iterable[float]:
    """0, then 1, 5 and 2 times the powers of ten and their negatives, the largest powers first."""
    if low <= 0 <= high:
        yield 0.0
    top = math.ceil(math.log10(max(abs(low), abs(high), 1e-300)))
    for digit in (1, 5, 2):
        for power in range(top, top - 6, -1):
            for one in (digit * 10.0**power, -digit * 10.0**power):
                if low <= one <= high:
                    yield one
