import numpy as np
import pytest
from scipy.stats import norm

from normscope.benchmark import intervals as module
from normscope.benchmark.intervals import from_counts, intervals, resampled
from normscope.benchmark.metrics import METRICS


def binormal(n: int, m: int, seed: int, distance: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """n normal images at N(0, 1), m anomalies at N(distance, 1): AUROC is Φ(distance / √2)."""
    is_anomaly = np.arange(n + m) >= n
    return np.random.default_rng(seed).normal(size=n + m) + distance * is_anomaly, is_anomaly


@pytest.mark.parametrize(("levels", "anomalies"), [(2, 173), (5, 20), (20, 1), (10_000, 60)])
def test_every_image_once_gives_the_metrics_themselves(levels, anomalies):
    scores, is_anomaly = binormal(97, anomalies, seed=levels)
    scores = np.round(scores * levels / 4)  # many are equal
    thresholds, place = np.unique(-scores, return_inverse=True)
    once = [np.bincount(place[which], minlength=len(thresholds))[None] for which in (~is_anomaly, is_anomaly)]
    found = from_counts(*once)
    for name, metric in METRICS.items():
        assert found[name][0] == pytest.approx(metric(scores, is_anomaly), rel=1e-13)


def test_a_resample_has_the_metrics_of_its_images():
    """Repeating each image as often as it was drawn, thresholds that nobody was drawn from included."""
    scores, is_anomaly = binormal(30, 25, seed=0)
    scores = np.round(scores, 1)
    thresholds, place = np.unique(-scores, return_inverse=True)
    random = np.random.default_rng(1)
    normal = resampled(place[~is_anomaly], len(thresholds), 50, random)
    anomalies = resampled(place[is_anomaly], len(thresholds), 50, random)
    assert (normal.sum(1) == 30).all()
    assert (anomalies.sum(1) == 25).all()
    found = from_counts(normal, anomalies)
    for number, (few, many) in enumerate(zip(normal, anomalies, strict=True)):
        repeated = np.concatenate([np.repeat(-thresholds, few), np.repeat(-thresholds, many)])
        for name, metric in METRICS.items():
            assert found[name][number] == pytest.approx(metric(repeated, np.arange(55) >= 30), rel=1e-13)


def test_images_are_drawn_alike():
    counts = resampled(np.array([0, 0, 0, 2]), 3, 4000, np.random.default_rng(0))
    # Binomial with 4 draws: mean 3, SD 0.87, so that the mean of 4000 is within 4 × 0.014.
    assert counts.mean(0) == pytest.approx([3, 0, 1], abs=0.055)
    assert counts[:, 0].var() == pytest.approx(4 * 3 / 4 * 1 / 4, rel=0.1)


def test_about_95_of_100_intervals_hold_the_truth():
    truth = norm.cdf(1 / np.sqrt(2))
    held = 0
    for seed in range(400):
        low, high = intervals(*binormal(100, 100, seed), resamples=400, seed=seed)["auroc"]
        held += low <= truth <= high
    # Percentile intervals of 100 images are a little short; 4 standard errors of a share of 400 are 0.044.
    assert held / 400 == pytest.approx(0.945, abs=0.044)


def test_the_width_is_that_of_hanley_and_mcneil():
    """Their 1982 standard error, with Q1 and Q2 for exponential scores, is within some per cent for normal ones."""
    n = m = 500
    area = norm.cdf(1 / np.sqrt(2))
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    error = np.sqrt((area * (1 - area) + (m - 1) * (q1 - area**2) + (n - 1) * (q2 - area**2)) / (n * m))
    widths = [np.diff(intervals(*binormal(n, m, seed))["auroc"])[0] for seed in range(10)]
    assert np.mean(widths) == pytest.approx(2 * 1.96 * error, rel=0.07)


def test_another_seed_moves_it_little_and_the_same_one_not_at_all():
    data = binormal(200, 300, seed=0)
    assert intervals(*data, seed=3) == intervals(*data, seed=3)
    one, other = intervals(*data, seed=3), intervals(*data, seed=4)
    assert one != other
    assert one["auroc"] == pytest.approx(other["auroc"], abs=0.01)


def test_the_level_and_the_order():
    data = binormal(200, 300, seed=0)
    wide, narrow = intervals(*data, level=0.99), intervals(*data, level=0.5)
    for name, metric in METRICS.items():
        assert wide[name][0] < narrow[name][0] < metric(*data) < narrow[name][1] < wide[name][1]


def test_perfect_scores_leave_nothing_to_chance():
    found = intervals(np.arange(10.0), np.arange(10) >= 5)
    assert found == {name: (0, 0) if name == "fpr95" else (1, 1) for name in METRICS}


def test_memory_is_bounded_whatever_the_number_of_resamples(monkeypatch):
    """In pieces of any size the intervals are about the same."""
    data = binormal(50, 50, seed=0)
    whole = intervals(*data)
    monkeypatch.setattr(module, "AT_ONCE", 700)
    for name, ends in intervals(*data).items():
        assert ends == pytest.approx(whole[name], abs=0.05)
    chunks = module.resampled_metrics(*data, 20, np.random.default_rng(0))
    assert [len(chunk["auroc"]) for chunk in chunks] == [7, 7, 6]


def test_what_cannot_be_resampled():
    scores, is_anomaly = binormal(5, 5, seed=0)
    with pytest.raises(ValueError, match="both normal images and anomalies"):
        intervals(scores, np.ones(10, bool))
    with pytest.raises(ValueError, match="resamples 0 must be 1 or more"):
        intervals(scores, is_anomaly, resamples=0)
    with pytest.raises(ValueError, match=r"level 95 between 0 and 1"):
        intervals(scores, is_anomaly, level=95)
