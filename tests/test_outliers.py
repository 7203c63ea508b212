import numpy as np
import pytest

from normscope import Detector
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.fitting import prepare, screened
from normscope.inference import encoded
from normscope.options import checked
from normscope.outliers import above_the_fence, deviations
from normscope.training.observer import Observer

WITH_ENCODER = {"width": 16, "pretrained": "efficientnet-lite0"}


class Notes(Observer):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_what_is_far_above_the_rest_is_an_outlier_the_farthest_first():
    scores = np.concatenate([np.random.default_rng(0).normal(0, 1, 1000), [9.0, 50.0, -50.0]])
    assert above_the_fence(scores).tolist() == [1001, 1000]


def test_a_tenth_of_anomalies_does_not_hide_itself():
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(0, 1, 900), rng.normal(12, 1, 100)])
    assert sorted(above_the_fence(scores)) == list(range(900, 1000))


@pytest.mark.parametrize("n", [20, 60, 200])
def test_one_that_is_far_from_all_others_is_nearly_always_named(n):
    rng = np.random.default_rng(0)
    found = [35 in scores[above_the_fence(scores)] for scores in among(rng, n, 35, times=100)]
    assert np.mean(found) > 0.97


def among(rng, n, score, times):
    for _ in range(times):
        yield np.append(rng.standard_exponential(n - 1), score)


def test_what_is_far_by_either_of_two_scores_is_an_outlier():
    rng = np.random.default_rng(0)
    plain, trimmed = rng.normal(size=(2, 50))
    plain[3], trimmed[[3, 8]] = 30, [2, 40]
    assert above_the_fence(plain, trimmed).tolist() == [8, 3]


CLEAN = {
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.standard_exponential(n),
    "chi squared": lambda rng, n: rng.chisquare(10, n),
    "log-normal": lambda rng, n: rng.lognormal(0, 0.5, n),
    "very skewed": lambda rng, n: rng.lognormal(0, 1, n),
    "long-tailed": lambda rng, n: rng.standard_t(5, n),
    "skewed to the left": lambda rng, n: -rng.standard_exponential(n),
}


@pytest.mark.parametrize("n", [60, 200, 2000])
@pytest.mark.parametrize("draw", CLEAN.values(), ids=CLEAN)
def test_of_clean_images_one_in_a_hundred_at_most_is_named(draw, n):
    rng = np.random.default_rng(0)
    assert np.mean([len(above_the_fence(draw(rng, n))) / n for _ in range(100)]) <= 0.01


def test_of_clean_digits_one_in_a_hundred_at_most_is_named():
    data = digits.load()
    named = images = 0
    for digit in range(10):
        normal = data.train_images[data.train_labels == digit]
        named += len(Detector("pca", false_alarm_rate=0.1).fit(normal).outliers)
        images += len(normal)
    assert named <= 0.01 * images


def test_deviations_are_those_of_the_law_that_scores_follow():
    z = np.random.default_rng(0).normal(size=100_000)
    for scores in (3 + 2 * z, np.exp(z), 5 + np.exp(0.3 * z)):
        found = deviations(scores, scores)
        assert found[z > 0.1] == pytest.approx(z[z > 0.1], rel=0.1, abs=0.05)


def test_equal_scores_are_no_reason():
    assert len(above_the_fence(np.ones(20))) == 0
    assert len(above_the_fence(np.repeat([0.0, 1.0], [150, 50]))) == 0


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
    assert one.card["data"]["excluded"] == 0
    assert not one.fit(stripes(60, seed=2)).outliers


def test_without_calibration_there_are_no_outliers():
    images = stripes(60)
    images[7] = 0
    assert not Detector("pca", false_alarm_rate=None).fit(images).outliers


class TestExcluded:
    @pytest.fixture
    def contaminated(self):
        """Eight of eighty are tilted, and alike: each has others in every reference."""
        images = stripes(80)
        images[::10] = stripes(8, seed=5).transpose(0, 2, 1)
        return images

    def test_outliers_that_hide_one_another_are_found_and_left_out(self, contaminated):
        plain = Detector("pca", false_alarm_rate=0.05).fit(contaminated)
        assert not plain.outliers
        one = Detector("pca", false_alarm_rate=0.05).fit(contaminated, exclude_outliers=True)
        assert sorted(outlier.position for outlier in one.outliers) == list(range(0, 80, 10))
        assert one.card["data"]["excluded"] == 8
        assert len(one.calibration.scores) == 72
        tilted = stripes(5, seed=6).transpose(0, 2, 1)
        assert one.predict(tilted).all()
        assert not plain.predict(tilted).all()

    def test_the_reference_is_fitted_to_those_that_agree_best(self, contaminated):
        one = Detector("knn", false_alarm_rate=0.05).fit(contaminated, exclude_outliers=True)
        assert len(one.model.reference["pixels"]) == 60  # three quarters

    def test_an_encoder_leaves_the_outliers_out_of_training(self, contaminated):
        options = checked("surprisal", settings=WITH_ENCODER, false_alarm_rate=0.1)
        ready, told = prepare(contaminated, options, None, True, Observer()), Notes()
        left = screened(ready, encoded(ready.method, ready.normal, ready.options.device, told)).training
        assert (ready.training % 10 == 0).sum() > 3
        assert not (left % 10 == 0).any()
        assert set(left) < set(ready.training)
        assert told.notes == [f"the network learns from the {len(left)} of 60 that agree best"]

    @pytest.mark.slow
    def test_a_network_is_trained_on_what_agrees_best_by_an_encoder(self, contaminated):
        one = Detector("surprisal", settings=WITH_ENCODER, epochs=1, false_alarm_rate=0.1)
        one.fit(contaminated, exclude_outliers=True, allow_collapse=True)
        assert 40 <= one.card["data"]["trained_on"] <= 50  # three quarters of 60, about

    def test_a_network_without_an_encoder_is_trained_on_all(self, contaminated):
        one = Detector("surprisal", settings={"width": 16}, epochs=1, false_alarm_rate=0.1)
        one.fit(contaminated, exclude_outliers=True, allow_collapse=True)
        assert one.card["data"]["trained_on"] == 60
        excluded = {outlier.position for outlier in one.outliers}
        assert one.card["data"]["excluded"] == len(excluded)
        assert 20 - len(excluded) <= len(one.calibration.scores) <= 20

    @pytest.mark.slow
    def test_the_false_alarm_rate_of_a_clean_folder_is_kept(self):
        rates = []
        for seed in range(40):
            images = stripes(179, seed)
            one = Detector("knn", false_alarm_rate=0.1).fit(images[:79], exclude_outliers=True)
            rates.append(one.predict(images[79:]).mean())
        # Given the calibration set the rate follows Beta(8, 72), standard deviation 0.033; then 100 trials each.
        assert np.mean(rates) < 0.1 + 3 * np.sqrt((0.033**2 + 0.09 / 100) / 40)

    def test_where_it_cannot_be_done_it_is_said(self):
        with pytest.raises(SettingError, match="anogan scores too slowly to look for outliers"):
            Detector("anogan").fit(stripes(20), exclude_outliers=True)
        with pytest.raises(SettingError, match="without a false-alarm rate nobody looks"):
            Detector("pca", false_alarm_rate=None).fit(stripes(20), exclude_outliers=True)
