import math

import numpy as np
import pytest
import torch

from normscope import artifact
from normscope.calibration import Calibration, held_out
from normscope.errors import ImageFolderError, ModelFileError, SettingError


@pytest.mark.parametrize(
    ("n", "rate", "count"),
    [
        (10_000, 0.01, 1000),  # a tenth
        (1000, 0.01, 200),  # 2 / rate
        (100, 0.01, 25),  # a quarter
        (2, 0.01, 1),
        (400, 5e-324, 100),
    ],
)
def test_how_many_are_held_out(n, rate, count):
    training, calibration = held_out(n, rate, np.random.default_rng(0))
    assert len(calibration) == count
    assert sorted([*training, *calibration]) == list(range(n))
    assert np.all(np.diff(training) > 0)
    assert np.all(np.diff(calibration) > 0)


def test_every_image_is_as_likely_to_be_held_out():
    rng = np.random.default_rng(0)
    times = np.zeros(20)
    for _ in range(1000):
        times[held_out(20, 0.1, rng)[1]] += 1
    # Each is held out with probability 1/4: 250 of 1000 times, standard deviation 14.
    assert np.abs(times - 250).max() < 4 * math.sqrt(1000 * 0.25 * 0.75)


def test_one_image_cannot_be_split():
    with pytest.raises(ImageFolderError, match="at least 2"):
        held_out(1, 0.01, np.random.default_rng(0))


@pytest.mark.parametrize("rate", [0, 1, math.nan])
def test_a_rate_outside_0_and_1_is_refused(rate):
    with pytest.raises(SettingError, match="between 0 and 1"):
        held_out(10, rate, np.random.default_rng(0))
    with pytest.raises(SettingError, match="between 0 and 1"):
        Calibration(np.ones(3), rate, "split")


def test_p_values_by_hand():
    calibration = Calibration(np.array([3.0, 1.0, 2.0, 2.0]), 0.5, "split")
    assert calibration.p_values([0, 1, 1.5, 2, 2.5, 3, 4]).tolist() == [1, 1, 0.8, 0.8, 0.4, 0.4, 0.2]
    assert calibration.threshold == 2  # p ≤ 0.5 from 2.5 on
    assert calibration.anomalous([2, 2.5]).tolist() == [False, True]


@pytest.mark.parametrize(("m", "rate"), [(49, 0.1), (24, 0.1), (24, 0.01)])
def test_the_false_alarm_rate_is_as_promised_on_average(m, rate):
    rng = np.random.default_rng(m)
    draws = 4000
    scores = rng.normal(size=(draws, m + 1))
    alarms = [bool(Calibration(row[:m], rate, "split").anomalous(row[m:])[0]) for row in scores]
    used = Calibration(scores[0, :m], rate, "split").achievable
    exact = math.floor(used * (m + 1) + 1e-9) / (m + 1)  # the rank of the last of m+1 exchangeable scores is uniform
    assert used - 1 / (m + 1) < exact <= used
    assert np.mean(alarms) == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / draws))


def test_p_values_are_super_uniform_with_ties():
    rng = np.random.default_rng(0)
    m, draws = 19, 4000
    scores = rng.integers(0, 4, size=(draws, m + 1))
    p = np.array([Calibration(row[:m], 0.1, "split").p_values(row[m:])[0] for row in scores])
    for level in np.arange(1, m + 2) / (m + 1):
        assert np.mean(p <= level) <= level + 4 * math.sqrt(level * (1 - level) / draws)


def test_p_values_fall_as_scores_rise():
    rng = np.random.default_rng(0)
    calibration = Calibration(rng.normal(size=50), 0.1, "split")
    p = calibration.p_values(np.linspace(-5, 5, 999))
    assert np.all(np.diff(p) <= 0)
    assert p[0] == 1
    assert p[-1] == 1 / 51


def test_what_the_threshold_would_be_without_some_images():
    calibration = Calibration(np.array([*range(98), 500.0, 900.0]), 0.02, "cross")
    assert calibration.threshold == 500
    assert calibration.threshold_without([500, 900]) == 97
    assert calibration.threshold_without([500]) == 97
    assert calibration.threshold_without([3.5]) is None
    assert Calibration(np.array([1.0]), 0.5, "cross").threshold_without([1.0]) is None


def test_above_the_threshold_is_exactly_p_at_most_the_rate():
    rng = np.random.default_rng(0)
    for _ in range(500):
        m = int(rng.integers(1, 120))
        scores = rng.integers(0, rng.integers(1, 30), size=m) / 10
        rate = rng.choice([0.01, 0.05, 0.07, 0.1, 0.29, 0.5, 0.99, rng.uniform(0.001, 0.999)])
        calibration = Calibration(scores, float(rate), "split")
        beside = [np.nextafter(scores, np.inf), np.nextafter(scores, -np.inf), rng.normal(size=9), [-np.inf, np.inf]]
        new = np.concatenate([scores, *beside])
        expected = calibration.p_values(new) <= calibration.achievable
        assert np.array_equal(calibration.anomalous(new), expected)
        assert np.array_equal(new > calibration.threshold, expected)
        assert calibration.anomalous([np.inf]).all()


def test_too_few_calibration_images_are_told():
    few = Calibration(np.arange(24.0), 0.01, "split")
    assert few.achievable == 1 / 25
    assert (
        few.note == "24 calibration images can promise a false-alarm rate of 4 % at best; about 99 are needed for 1 %"
    )
    assert "\n" not in (Calibration(np.ones(1), 0.0001, "split").note or "\n")
    enough = Calibration(np.arange(99.0), 0.01, "split")
    assert (enough.achievable, enough.note, enough.threshold) == (0.01, None, 98.0)
    assert type(Calibration(np.arange(99.0), np.float32(0.5), "split").rate) is float


def test_another_rate_is_another_calibration_with_the_same_scores():
    one = Calibration(np.arange(99.0), 0.01, "cross")
    other = one.at(0.1)
    assert (one.rate, one.threshold, one.kind) == (0.01, 98, "cross")
    assert (other.rate, other.threshold, other.kind) == (0.1, 89, "cross")
    with pytest.raises(SettingError):
        one.at(1)


@pytest.mark.parametrize(("m", "rate"), [(24, 0.01), (199, 0.05)])
def test_for_nine_calibration_sets_in_ten_the_false_alarm_rate_is_likely(m, rate):
    rng = np.random.default_rng(0)
    sets = [Calibration(rng.uniform(size=m), rate, "split") for _ in range(1000)]
    low, high = sets[0].likely
    rates = np.array([1 - one.threshold for one in sets])  # of uniform scores
    assert low < sets[0].achievable < high
    assert np.mean((low < rates) & (rates < high)) == pytest.approx(0.9, abs=4 * math.sqrt(0.09 / 1000))
    assert f"between {100 * low:.3g} % and {100 * high:.3g} % (90 % sure)" in sets[0].promise


def test_the_promise_is_one_line_and_no_more_than_there_is():
    scores = np.arange(24.0)
    assert ": at most 4 % of normal images on average" in Calibration(scores, 0.01, "split").promise
    assert ": about 4 % of normal images on average" in Calibration(scores, 0.01, "cross").promise
    assert "\n" not in Calibration(scores, 0.01, "cross").promise


def test_estimates_go_on_where_p_values_end():
    calibration = Calibration(np.random.default_rng(0).normal(size=200), 0.05, "split")
    new = np.linspace(-4, 40, 5001)
    estimates, p = calibration.estimates(new), calibration.p_values(new)
    tail = new > calibration.tail.start
    assert (estimates[~tail] == p[~tail]).all()
    assert (np.diff(estimates) <= 0).all()
    assert p[-1] == 1 / 201
    assert 0 < estimates[-1] < 1e-4
    just_above = np.nextafter(calibration.tail.start, np.inf)
    assert calibration.estimates([just_above]) == pytest.approx(calibration.p_values([just_above]))
    assert (calibration.anomalous(new) == (p <= 0.05)).all()  # the verdict is by p-values
    assert calibration.pack()[1]["tail"] == calibration.tail._asdict()


def test_without_a_tail_there_are_no_estimates():
    few = Calibration(np.arange(9.0), 0.1, "split")
    assert few.estimates([1.0]) is None
    assert few.pack()[1]["tail"] is None


@pytest.mark.parametrize("scores", [[], [math.inf, 1], [[1.0, 2.0]]])
def test_scores_must_be_finite_and_there(scores):
    with pytest.raises(ValueError, match="calibration scores"):
        Calibration(np.array(scores), 0.1, "split")


def test_nan_is_never_given_a_verdict():
    calibration = Calibration(np.arange(9.0), 0.1, "split")
    for ask in (calibration.p_values, calibration.anomalous):
        with pytest.raises(ValueError, match="NaN"):
            ask([1.0, math.nan])


def test_the_callers_array_is_neither_sorted_nor_shared():
    scores = np.array([2.0, 1.0])
    calibration = Calibration(scores, 0.5, "split")
    scores[0] = 9
    assert calibration.scores.tolist() == [1, 2]
    assert scores.tolist() == [9, 1]
    with pytest.raises(ValueError):
        calibration.scores[0] = 0


def test_through_the_model_file(tmp_path):
    calibration = Calibration(np.random.default_rng(0).normal(size=24), 0.01, "split")
    tensors, card = calibration.pack()
    assert tensors["calibration.scores"].dtype == torch.float64
    artifact.save(tmp_path / "m", tensors, card)
    again = Calibration.unpack(*artifact.load(tmp_path / "m")[:2])
    assert again.scores.tolist() == calibration.scores.tolist()
    assert (again.rate, again.threshold, again.note) == (0.01, card["threshold"], card["note"])
    assert (again.kind, card["kind"], card["images"]) == ("split", "split", 24)


@pytest.mark.parametrize(
    ("tensors", "card"),
    [
        ({}, {"rate": 0.1, "kind": "split"}),
        ({"calibration.scores": torch.ones(3)}, {}),
        ({"calibration.scores": torch.ones(3)}, {"rate": "0.1", "kind": "split"}),
        ({"calibration.scores": torch.ones(0)}, {"rate": 0.1, "kind": "split"}),
        ({"calibration.scores": torch.ones(3)}, {"rate": 0.1, "kind": "other"}),
    ],
)
def test_a_model_without_usable_calibration_is_refused(tensors, card):
    with pytest.raises(ModelFileError, match="no usable calibration"):
        Calibration.unpack(tensors, card)
