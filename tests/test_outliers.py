import numpy as np

from normscope import Detector
from normscope.outliers import above_the_fence


def test_what_is_far_above_the_rest_is_an_outlier_the_farthest_first():
    scores = np.concatenate([np.random.default_rng(0).normal(0, 1, 1000), [9.0, 50.0, -50.0]])
    assert above_the_fence(scores).tolist() == [1001, 1000]


def test_a_tenth_of_anomalies_does_not_hide_itself():
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(0, 1, 900), rng.normal(12, 1, 100)])
    assert sorted(above_the_fence(scores)) == list(range(900, 1000))


def test_clean_images_are_rarely_outliers():
    rng = np.random.default_rng(0)
    for draw in (rng.normal, rng.standard_exponential, lambda size: rng.chisquare(10, size)):
        assert len(above_the_fence(draw(size=20000))) < 0.01 * 20000


def test_equal_scores_are_no_reason():
    assert len(above_the_fence(np.ones(20))) == 0


def stripes(n, seed=0):
    noise = np.random.default_rng(seed).normal(0, 8, (n, 28, 28))
    return np.clip(128 + 80 * np.sin(np.arange(28) / 2) + noise, 0, 255).astype(np.uint8)


def test_fit_names_outliers_among_the_normal_images():
    images = stripes(60)
    images[[7, 31]] = np.random.default_rng(1).integers(0, 256, (2, 28, 28))
    one = Detector("pca", false_alarm_rate=0.05).fit(images)
    assert sorted(outlier.position for outlier in one.outliers) == [7, 31]
    assert all(outlier.path is None for outlier in one.outliers)
    assert one.outliers[0].score >= one.outliers[1].score
    assert not one.fit(stripes(60, seed=2)).outliers


def test_without_calibration_there_are_no_outliers():
    images = stripes(60)
    images[7] = 0
    assert not Detector("pca", false_alarm_rate=None).fit(images).outliers
