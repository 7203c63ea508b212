import numpy as np
import pytest

from normscope.report.axis import make_axis

NORMAL = np.random.default_rng(0).normal(0, 1, 200)


@pytest.mark.parametrize(
    "scores",
    [
        np.array([-3.0, 1, 2, 200]),
        np.array([5.0]),
        np.full(9, -7.0),
        np.array([-1e9, 1e9]),
        np.array([1000.01, 1000.02]),
        np.array([1e-12, 2e-12]),
    ],
)
@pytest.mark.parametrize("normal", [NORMAL, np.empty(0), np.full(30, 2.5)])
def test_every_score_has_a_place_and_can_be_read_back(scores, normal):
    axis = make_axis(scores, normal)
    every = np.sort(np.concatenate([scores, normal]))
    places = axis.position(every)
    assert (places > 0).all()
    assert (places < 1).all()
    assert (np.diff(places) >= 0).all()
    assert [axis.score(place) for place in places] == pytest.approx(every.tolist(), rel=1e-6, abs=1e-9)
    ticks = axis.ticks()
    assert 3 <= len(ticks) <= 12
    assert ticks == sorted(ticks)
    assert (axis.position(ticks) > -0.02).all()
    assert (axis.position(ticks) < 1.02).all()


def test_normal_scores_are_not_squeezed_by_far_ones():
    axis = make_axis(np.array([1e4]), NORMAL)
    low, high = axis.position([NORMAL.min(), NORMAL.max()])
    assert high - low > 0.12  # evenly divided it would be 0.0005


def test_ticks_are_round():
    assert make_axis(np.array([60.0]), NORMAL).ticks() == [-2, 0, 2, 5, 10, 20, 50]


def test_decimals_follow_the_spread():
    assert make_axis(np.array([5.0]), NORMAL).decimals == 2
    assert make_axis(np.array([5000.0]), 1000 * NORMAL).decimals == 0
    assert make_axis(np.array([0.005]), NORMAL / 1000).decimals == 5
