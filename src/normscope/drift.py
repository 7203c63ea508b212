"""Whether normal has moved: a sequential test of incoming scores against those of calibration.

A conformal test martingale (Vovk, Gammerman & Shafer 2005, *Algorithmic Learning in a Random World*, chapter 7). Each
score is ranked among the calibration scores *and all earlier ones*, with ties broken at random: if all of them are
exchangeable, these p-values are independent and uniform. Against a fixed calibration set they would not be independent:
one lucky set would make every p-value small. Capital that is bet on small (or large) p-values is then a martingale that
starts at 1, and the chance that it ever reaches 1/rate is at most `rate`, however long the stream (Ville).

    drift = begin(model.calibration)
    drift = carried_on(drift, scores)  # as often as there are new ones; a value, so that callers may keep it
    if drift.message: ...
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from normscope.calibration import Calibration, Scores, check_rate, checked, percent

RATE = 0.01  # chance that there is ever a message while nothing has moved
POWERS = np.array([0.25, 0.5, 0.75])  # κ of the bets κ·p^(κ−1)
LEAST = 1e-12  # p-value
MOST = 10_000  # different scores that are remembered
LATEST = 20  # images that are called so, about
SEED = 20  # of how ties are broken
BITS = 53  # of the mantissa of a float

Counts = npt.NDArray[np.int64]
Rounded = TypeVar("Rounded", float, Scores)
Values = TypeVar("Values", Scores, Counts)


@dataclass(frozen=True, eq=False)
class Martingale:
    """Capital that was bet on scores; `alarm` is how many had been seen when it reached the level.

    Nobody knows when scores will move, so the capital of 1 is shared out over the times to begin at: 1/(k(k+1)) of it
    begins with score k, the same for each bet. So a long quiet time costs only the logarithm of its length.

    Calibration and all scores so far are remembered as `known` values and how often each came. Once more than MOST are
    different, all are rounded, to as many bits as leave MOST at most. So memory is bounded, and p-values stay
    independent and uniform: how far to round depends on which scores there are, and not on their order.
    """

    known: Scores  # [at most MOST], sorted
    counts: Counts  # of each
    bits: int  # of the mantissa that are kept
    capital: Scores  # [bets]: on small p-values, a bet for each of POWERS, then on large ones if there are these
    level: float
    seen: int = 0
    alarm: int | None = None

    @property
    def upward(self) -> bool:
        """Whether most was won by bets on scores that are higher."""
        bets = len(POWERS)
        return bool(self.capital[:bets].sum() >= self.capital[bets:].sum())


@dataclass(frozen=True, eq=False)
class Drift:
    """A test of images that are not flagged and one of all, at half the rate each.

    The first does not mind anomalies. It is exact, too: given the threshold, which is a calibration score, those below
    it are drawn from one distribution, whether of calibration or new. The second is for the case that most images are
    flagged, so that few are left to the first.
    """

    unflagged: Martingale
    every: Martingale
    threshold: float
    rate: float
    flagged: float = 0.0  # share of the latest
    flood: int | None = None  # how many had been seen when most were flagged, and not by chance

    @property
    def message(self) -> str | None:
        """A sentence for the user once normal has moved; None as long as nothing says so."""
        by_chance = f"by chance in {percent(self.rate)} of streams at most"
        if self.unflagged.alarm is not None:
            where, remedy = "higher", "review new images and recalibrate, or fit again"
            if not self.unflagged.upward:
                where, remedy = "lower", f"{remedy}, unless the model was fitted to these very images"
            return (
                f"normal has moved: images that are not flagged score {where} than those of calibration (noticed after "
                f"{self.unflagged.alarm} of them; {by_chance}); {remedy}"
            )
        if self.flood is not None:
            return (
                "normal has moved, or most images are anomalous: more than half are flagged (noticed after "
                f"{self.flood} images; {by_chance}); look at them, and fit again if they are normal"
            )
        return None


def begin(calibration: Calibration, rate: float = RATE) -> Drift:
    """Before any score was seen.

    With `split` calibration new scores may move up or down. With `cross` they may be lower than those of calibration
    from the first (see `Calibration`), so that only higher ones count: the test then stays valid.
    """
    check_rate(rate)
    bets, level = len(POWERS) * (2 if calibration.kind == "split" else 1), 2 / rate
    below = calibration.scores[calibration.scores < calibration.threshold]
    unflagged, every = (
        Martingale(*remembered(*np.unique(scores, return_counts=True), BITS), np.zeros(bets), level)
        for scores in (below, calibration.scores)
    )
    return Drift(unflagged, every, calibration.threshold, rate)


def carried_on(drift: Drift, scores: npt.ArrayLike) -> Drift:
    """After these scores as well, in order."""
    for score in checked(scores):
        drift = after_one(drift, float(score))
    return drift


def after_one(drift: Drift, score: float) -> Drift:
    unflagged = bet(drift.unflagged, score) if score < drift.threshold else drift.unflagged
    every, flagged = bet(drift.every, score), drift.flagged + ((score > drift.threshold) - drift.flagged) / LATEST
    flooded = every.alarm is not None and flagged > 0.5
    flood = every.seen if flooded and drift.flood is None else drift.flood
    return replace(drift, unflagged=unflagged, every=every, flagged=flagged, flood=flood)


def bet(now: Martingale, score: float) -> Martingale:
    """After one more score; once there was an alarm, scores are only counted."""
    seen = now.seen + 1
    if now.alarm is not None:
        return replace(now, seen=seen)
    known, counts, bits = with_score(now, score)
    p = p_value(known, counts, rounded(score, bits), 1 - np.random.default_rng((SEED, seen)).random())
    bets = len(now.capital)
    capital = (now.capital + 1 / (seen * (seen + 1) * bets)) * payoffs(p)[:bets]
    alarm = seen if capital.sum() + 1 / (seen + 1) >= now.level else None
    return Martingale(known, counts, bits, capital, now.level, seen, alarm)


def remembered(known: Scores, counts: Counts, bits: int) -> tuple[Scores, Counts, int]:
    """Sorted values and how often each came, rounded further where there are more than MOST."""
    while len(known) > MOST:
        bits -= 1
        known, same = np.unique(rounded(known, bits), return_inverse=True)
        counts = np.bincount(same, counts).astype(np.int64)
    return known, counts, bits


def with_score(now: Martingale, score: float) -> tuple[Scores, Counts, int]:
    """What is remembered after one more score."""
    value = rounded(score, now.bits)
    place = int(np.searchsorted(now.known, value))
    if place < len(now.known) and now.known[place] == value:
        counts = now.counts.copy()
        counts[place] += 1
        return now.known, counts, now.bits
    return remembered(with_one(now.known, place, value), with_one(now.counts, place, 1), now.bits)


def with_one(values: Values, place: int, value: float) -> Values:
    """`numpy.insert`, which takes five times as long."""
    return np.concatenate((values[:place], np.array([value], values.dtype), values[place:]))


def rounded(values: Rounded, bits: int) -> Rounded:
    """Towards zero, to so many bits of the mantissa: in one step or in several, the result is the same."""
    if bits == BITS:
        return values
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.trunc(np.ldexp(mantissa, bits)), exponent - bits)


def p_value(known: Scores, counts: Counts, score: float, u: float) -> float:
    """The share of all scores that are higher than this one, and u in (0, 1] of those equal to it; it is among them."""
    place = int(np.searchsorted(known, score))
    return float((counts[place + 1 :].sum() + u * counts[place]) / counts.sum())


def payoffs(p: float) -> Scores:
    """What 1 becomes: a bet on small p for each of POWERS, then on large p. Each is 1 on average if p is uniform."""
    sides = np.repeat([max(p, LEAST), max(1 - p, LEAST)], len(POWERS))
    powers = np.tile(POWERS, 2)
    return np.asarray(powers * sides ** (powers - 1))
