"""The test of drift: exact p-values, few false alarms whatever is exchangeable, and quick where something moves."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from normscope import drift
from normscope.calibration import Calibration
from normscope.drift import begin, carried_on, p_value, payoffs
from normscope.errors import SettingError


def calibration(rng, m=100, kind="split", rate=0.05):
    return Calibration(rng.normal(size=m), rate, kind)


def alarms(streams, rate=0.2, seed=0, draw=None, **options):
    """How many of so many streams of 150 normal images, each with a calibration set of its own, end in a message."""
    rng = np.random.default_rng(seed)
    draw = draw or (lambda rng, n: rng.normal(size=n))
    count = 0
    for _ in range(streams):
        drift = begin(Calibration(draw(rng, 60), 0.05, **({"kind": "split"} | options)), rate)
        count += carried_on(drift, draw(rng, 150)).message is not None
    return count


def rank(scores, score, u):
    return p_value(*np.unique(scores, return_counts=True), score, u)


def test_ranks_of_exchangeable_scores_are_independent_and_uniform():
    """Every order of four scores, two of them for calibration: each pair of p-values is as frequent as any other."""
    pairs = Counter()
    for first, second, third, fourth in itertools.permutations(range(4)):
        known = [first, second, third]
        pairs[rank(known, third, 1.0), rank([*known, fourth], fourth, 1.0)] += 1
    assert pairs == {(a / 3, b / 4): 2 for a in (1, 2, 3) for b in (1, 2, 3, 4)}


def test_ties_are_broken_evenly():
    rng = np.random.default_rng(0)
    streams = [rng.integers(0, 3, 21) for _ in range(2000)]
    p_values = [rank(scores, scores[-1], rng.random()) for scores in streams]
    assert kstest(p_values, "uniform").pvalue > 0.01


def test_bets_are_fair():
    for index in range(6):
        assert quad(lambda p, index=index: payoffs(p)[index], 0, 1)[0] == pytest.approx(1, abs=1e-3)
    assert (payoffs(0.01)[:3] > 1).all()
    assert (payoffs(0.01)[3:] < 1).all()
    assert np.isfinite(payoffs(0.0)).all()
    assert np.isfinite(payoffs(1.0)).all()


@pytest.mark.parametrize(
    "draw",
    [
        pytest.param(lambda rng, n: rng.normal(size=n), marks=pytest.mark.slow),
        lambda rng, n: rng.integers(0, 4, n).astype(float),  # many ties
        pytest.param(lambda rng, n: np.exp(rng.normal(size=n)), marks=pytest.mark.slow),
    ],
    ids=["normal", "ties", "log-normal"],
)
def test_false_alarms_are_as_rare_as_promised(draw):
    assert alarms(100, rate=0.2, draw=draw) <= 0.2 * 100 + 2 * 4  # and the standard error is 4


def test_cross_calibration_that_scores_too_high_raises_no_alarm():
    """Out of fold, images score higher than new ones do; only higher scores count there."""
    rng, count = np.random.default_rng(1), 0
    for _ in range(60):
        drift = begin(Calibration(rng.normal(1, 1, 60), 0.05, "cross"), 0.2)
        count += carried_on(drift, rng.normal(0, 1, 150)).message is not None
    assert count <= 0.2 * 60
    split = begin(Calibration(rng.normal(1, 1, 60), 0.05, "split"), 0.2)
    assert "score lower than" in carried_on(split, rng.normal(0, 1, 150)).message


@pytest.mark.parametrize(
    ("shift", "quiet", "within"), [(1.0, 0, 100), (-1.0, 0, 50), (1.0, 500, 180), (2.0, 500, 40), (4.0, 500, 25)]
)
def test_a_shift_is_noticed_soon(shift, quiet, within):
    """Of ten streams with 200 calibration images, the median delay after so many quiet ones."""
    delays = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        drift = carried_on(begin(calibration(rng, 200)), rng.normal(size=quiet))
        assert drift.message is None
        seen = 0
        while drift.message is None and seen < 400:
            drift, seen = carried_on(drift, rng.normal(shift, 1, 5)), seen + 5
        delays.append(seen)
    assert np.median(delays) <= within, delays
    if abs(shift) < 2:
        assert ("score higher than" if shift > 0 else "score lower than") in drift.message


def test_anomalies_are_no_drift_but_a_flood_of_them_is_said():
    rng = np.random.default_rng(0)
    mixed = np.where(rng.random(300) < 0.2, 10.0, rng.normal(size=300))
    assert carried_on(begin(calibration(rng, 200)), mixed).message is None
    drift = carried_on(begin(calibration(rng, 200)), np.full(40, 10.0))
    assert drift.message.startswith("normal has moved, or most images are anomalous: more than half are flagged")


def test_it_is_a_value_that_is_carried_on():
    rng = np.random.default_rng(0)
    first, scores = begin(calibration(rng)), rng.normal(0.5, 1, 60)
    whole = carried_on(first, scores)
    parts = carried_on(carried_on(carried_on(first, scores[:1]), []), scores[1:])
    assert first.every.seen == 0
    assert (parts.unflagged.capital == whole.unflagged.capital).all()
    assert (parts.every.known == whole.every.known).all()
    assert parts.message == whole.message


def test_an_alarm_stays():
    rng = np.random.default_rng(0)
    drift = carried_on(begin(calibration(rng)), rng.normal(2, 1, 100))
    assert drift.message
    assert carried_on(drift, rng.normal(size=300)).message == drift.message


def test_a_rate_is_a_rate():
    with pytest.raises(SettingError, match="between 0 and 1"):
        begin(calibration(np.random.default_rng(0)), 1)


def test_a_single_calibration_image_is_enough_to_begin_with():
    drift = begin(Calibration(np.array([1.0]), 0.05, "split"))
    assert carried_on(drift, [0.5, 1.0, 2.0]).message is None


@pytest.fixture
def short_memory(monkeypatch):
    monkeypatch.setattr(drift, "MOST", 50)


def test_memory_is_bounded_however_long_the_stream(short_memory):
    rng = np.random.default_rng(0)
    now, scores = begin(calibration(rng)), rng.normal(size=1000)
    assert len(now.every.known) <= 50
    for start in range(0, 1000, 100):
        now = carried_on(now, scores[start : start + 100])
        assert len(now.every.known) <= 50
        assert now.every.counts.sum() == 100 + now.every.seen
    assert now.message is None


def test_what_is_remembered_does_not_depend_on_the_order(short_memory):
    """Otherwise ranks were not exact: rounded on the way or at the end, it is the same."""
    rng = np.random.default_rng(0)
    normal, scores = calibration(rng), rng.normal(size=300)
    one, other = (carried_on(begin(normal), some).every for some in (scores, scores[::-1]))
    assert one.alarm is other.alarm is None
    assert one.bits == other.bits < 53
    assert (one.known == other.known).all()
    assert (one.counts == other.counts).all()


def test_false_alarms_are_as_rare_as_promised_with_a_short_memory(short_memory):
    assert alarms(50, rate=0.2) <= 0.2 * 50 + 2 * 3


def test_a_shift_is_noticed_with_a_short_memory(short_memory):
    rng = np.random.default_rng(0)
    now = carried_on(begin(calibration(rng, 200)), rng.normal(size=1000))
    assert now.message is None
    assert "score higher than" in carried_on(now, rng.normal(1, 1, 300)).message
