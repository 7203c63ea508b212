import numpy as np
import pytest

from normscope.benchmark.evaluation import evaluate, share
from normscope.benchmark.metrics import auroc
from normscope.calibration import Calibration


def test_what_is_flagged_by_hand():
    calibration = Calibration(np.arange(99.0), 0.1, "split")  # thresholds 89, 98 and 94 at 10, 1 and 5 %
    found = evaluate(np.array([1.0, 50.0, 90.0, 97.0]), np.array([80.0, 95.0, 99.0]), calibration)
    assert [(one.asked, one.rate, one.threshold) for one in found.flagged] == [
        (0.1, 0.1, 89),
        (0.01, 0.01, 98),
        (0.05, 0.05, 94),
    ]
    assert [one.detection.number for one in found.flagged] == [2, 1, 2]
    assert [one.false_alarms.number for one in found.flagged] == [2, 0, 1]
    assert found.auroc == pytest.approx(9 / 12)  # the bad ones score higher than 2, 3 and 4 of the good
    assert found.interval[0] < found.auroc <= found.interval[1]


def test_a_rate_that_cannot_be_kept_is_replaced_by_the_least_there_is():
    found = evaluate(np.arange(3.0), np.arange(3.0), Calibration(np.arange(24.0), 0.05, "split"))
    assert [(one.asked, one.rate) for one in found.flagged] == [(0.05, 0.05), (0.01, 0.04)]


def test_without_calibration_there_is_auroc_alone():
    rng = np.random.default_rng(0)
    good, bad = rng.normal(size=40), rng.normal(1, 1, 30)
    found = evaluate(good, bad, None)
    assert found.flagged == ()
    assert found.auroc == auroc(np.concatenate([good, bad]), np.repeat([0, 1], [40, 30]))


def test_the_interval_of_a_share_is_wilsons():
    # Wilson 1927: (k + z²/2 ± z √(k(n − k)/n + z²/4)) / (n + z²), for 8 of 10 with z = 1.96: 0.4902 to 0.9433.
    one = share([True] * 8 + [False] * 2)
    assert (one.number, one.of, one.share) == (8, 10, 0.8)
    assert one.interval == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert share([False] * 10).interval[1] > 0.2
