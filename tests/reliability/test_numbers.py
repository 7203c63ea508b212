"""NaN and infinity never reach a report; odd sets of images give finite scores or a clear error; rates are kept."""

import math

import numpy as np
import pytest
import torch
from PIL import Image
from small_methods import NAMES, detector, pictures

from normscope import Detector
from normscope.errors import NormscopeError, NotFiniteError, TrainingError
from normscope.methods.knn import KNN
from normscope.methods.pca import PCA
from normscope.training.method import Phase

BAD = (math.nan, math.inf, -math.inf)


def spoilt(tensor, value):
    tensor = tensor.clone()
    tensor.reshape(-1)[-1] = value
    return tensor


@pytest.mark.parametrize("value", BAD)
def test_a_reference_that_is_not_finite_is_named(monkeypatch, value):
    finish = KNN.finish
    monkeypatch.setattr(KNN, "finish", lambda self, batches: {"pixels": spoilt(finish(self, batches)["pixels"], value)})
    with pytest.raises(TrainingError, match="the reference pixels has NaN or infinite values fitted to"):
        detector("knn").fit(pictures(12))


@pytest.mark.parametrize("value", BAD)
def test_a_weight_that_is_not_finite_after_the_last_step_is_named(monkeypatch, value):
    def step(self, batch, optimizers, progress):
        with torch.no_grad():
            self.weight[0] = value  # what is recorded is finite
        return {"loss": torch.zeros(())}

    def init(self, settings, shape):
        super(KNN, self).__init__(settings, shape)
        self.weight = torch.nn.Parameter(torch.zeros(3))

    monkeypatch.setattr(KNN, "__init__", init)
    monkeypatch.setattr(KNN, "phases", lambda self: [Phase("train", 1, 8)])
    monkeypatch.setattr(KNN, "optimizers", lambda self, phase: {"all": torch.optim.SGD(self.parameters(), 0.1)})
    monkeypatch.setattr(KNN, "step", step)
    with pytest.raises(TrainingError, match=r"the weight weight has NaN or infinite values after \d steps"):
        detector("knn").fit(pictures(12))


@pytest.mark.parametrize("value", BAD)
def test_a_calibration_score_that_is_not_finite_is_named(monkeypatch, value):
    monkeypatch.setattr(KNN, "score", lambda self, images, reference: spoilt(torch.zeros(len(images)), value))
    with pytest.raises(NotFiniteError, match=r"the score of image \d+ is NaN or infinite; fit again"):
        detector("knn").fit(pictures(12))


@pytest.fixture
def paths(tmp_path):
    for number, image in enumerate(pictures(3, seed=1)):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    return sorted(tmp_path.glob("*.png"))


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("what", ["score", "explain"])
def test_a_score_or_heat_map_that_is_not_finite_is_a_row_with_an_error(monkeypatch, paths, value, what):
    model, original = detector("pca").fit(pictures(12)).model, getattr(PCA, what)
    monkeypatch.setattr(PCA, what, lambda self, *given, **named: spoilt(original(self, *given, **named), value))
    *good, bad = model.scored(paths, with_heat=True)
    assert all(one.row["error"] is None and math.isfinite(one.row["score"]) for one in good)
    assert "NaN or infinite" in bad.row["error"]
    assert bad.row["score"] is bad.row["p_value"] is bad.row["anomalous"] is bad.heat is None
    ask, word = (detector_of(model).score, "score") if what == "score" else (detector_of(model).explain, "heat map")
    with pytest.raises(NotFiniteError, match=rf"the {word} of .*2\.png is NaN or infinite"):
        ask(paths)


def detector_of(model):
    one = detector("pca")
    one._model = model
    return one


def constant(n):
    return np.full((n, 28, 28), 130, np.uint8)


ODD = {
    "all the same": constant(12),
    "all the same but one": np.concatenate([constant(11), pictures(1)]),
    "all the same but one pixel": np.where(
        np.arange(12)[:, None, None] * 784 == np.arange(784).reshape(28, 28), 131, 130
    ),
    "flat, of different brightness": np.arange(12).reshape(12, 1, 1) * 20 + np.zeros((1, 28, 28)),
    "black and white": np.where(np.arange(12) % 2, 255, 0).reshape(12, 1, 1) + np.zeros((1, 28, 28)),
    "two pictures, six times each": np.repeat(pictures(2), 6, axis=0),
    "one": pictures(1),
    "two": pictures(2),
    "eight": pictures(8),
}


def odd(name, images):
    """`finite`, or an error of ours in one line; whatever else there is begins with `lost`."""
    try:
        one = detector(name).fit(np.asarray(images, np.uint8), allow_collapse=True)
        scores = one.score(np.concatenate([pictures(2, seed=5), constant(1), np.zeros((1, 28, 28), np.uint8)]))
    except NormscopeError as error:
        return f"lost: an error in several lines: {error}" if "\n" in str(error) else str(error)
    except Exception as error:  # whatever it is, it is counted
        return f"lost: {type(error).__name__}: {error}"
    return "finite" if np.isfinite([*scores, one.calibration.threshold]).all() else "lost: not finite"


def said(name, kind, what):
    """Whether it is what must be said of such a set, if anything must."""
    if kind == "all the same":
        return "there is nothing to learn from them" in what
    if kind == "one":
        return "too few to learn from; give 8 or more" in what
    return what == "finite" or kind != "eight"  # far fewer than dimensions


@pytest.mark.parametrize("names", [["knn", "pca", "ocsvm"], pytest.param(NAMES, marks=pytest.mark.soak)])
def test_odd_sets_of_images_give_finite_scores_or_a_clear_error(tally, names):
    found = {(name, kind): odd(name, images) for name in names for kind, images in ODD.items()}
    lost = [(*case, what) for case, what in found.items() if what.startswith("lost") or not said(*case, what)]
    print(*lost, sep="\n")
    tally("numbers: odd sets of images, finite scores or a clear error", len(found), len(lost))


@pytest.mark.parametrize("fits", [30, pytest.param(1_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("method", "n", "rate"),
    [("knn", 12, 0.05), *(pytest.param(name, 40, 0.1, marks=pytest.mark.slow) for name in ("knn", "pca"))],
)
def test_the_promised_false_alarm_rate_is_kept(tally, fits, method, n, rate):
    """One new normal image for each fit, so that alarms are independent: within four binomial standard deviations."""
    alarms, promised = 0, 0.0
    for seed in range(fits):
        images = pictures(n + 1, seed=seed)
        one = detector(method, seed=seed, false_alarm_rate=rate).fit(images[:n])
        promised = one.calibration.achievable
        alarms += int(one.predict(images[n:])[0])
    most = promised * fits + 4 * math.sqrt(fits * promised * (1 - promised))
    assert alarms > 0 or fits < 100, "a threshold that flags nothing keeps every promise"
    what = f"numbers: simulated fits of {method} to {n} images, promised rate exceeded"
    tally(what, fits, int(alarms > most), alarms=alarms, promised=round(promised * fits, 1))


def test_complex_scores_are_refused(monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    one = Detector("pca", false_alarm_rate=None).fit(images)
    monkeypatch.setattr(type(one.model.method), "score", lambda own, x, reference: torch.ones(len(x)) * 1j)
    with pytest.raises(ValueError, match="complex"):
        one.score(images)
