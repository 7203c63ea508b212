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

import numpy as np
import numpy.typing as npt

from normscope.calibration import Calibration, Scores, check_rate, checked, percent

RATE = 0.01  # chance that there is ever a message while nothing has moved
POWERS = np.array([0.25, 0.5, 0.75])  # κ of the bets κ·p^(κ−1)
LEAST = 1e-12  # p-value
LATEST = 20  # images that are called so, about
SEED = 20  # of how ties are broken


@dataclass(frozen=True, eq=False)
class Martingale:
    """Capital that was bet on scores; `alarm` is how many had been seen when it reached the level.

    Nobody knows when scores will move, so the capital of 1 is shared out over the times to begin at: 1/(k(k+1)) of it
    begins with score k, the same for each bet. So a long quiet time costs only the logarithm of its length.
    """

    known: Scores  # [m + seen], sorted: calibration and all scores so far
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
    unflagged, every = (Martingale(known, np.zeros(bets), level) for known in (below, calibration.scores))
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
    p = p_value(now.known, score, 1 - np.random.default_rng((SEED, seen)).random())
    bets = len(now.capital)
    capital = (now.capital + 1 / (seen * (seen + 1) * bets)) * payoffs(p)[:bets]
    alarm = seen if capital.sum() + 1 / (seen + 1) >= now.level else None
    known = np.insert(now.known, np.searchsorted(now.known, score), score)
    return Martingale(known, capital, now.level, seen, alarm)


def p_value(known: Scores, score: float, u: float) -> float:
    """The share of all scores that are higher than this one, and u in (0, 1] of those equal to it, itself included."""
    left, right = np.searchsorted(known, score, "left"), np.searchsorted(known, score, "right")
    return float((len(known) - right + u * (right - left + 1)) / (len(known) + 1))


def payoffs(p: float) -> Scores:
    """What 1 becomes: a bet on small p for each of POWERS, then on large p. Each is 1 on average if p is uniform."""
    sides = np.repeat([max(p, LEAST), max(1 - p, LEAST)], len(POWERS))
    powers = np.tile(POWERS, 2)
    return np.asarray(powers * sides ** (powers - 1))
