import numpy as np
import pytest
import torch

from normscope.benchmark import curve as curves
from normscope.benchmark.curve import Curve, part
from normscope.datasets import digits
from normscope.fitting import fit
from normscope.intake import read
from normscope.model import Model
from normscope.options import checked
from normscope.training.method import Method
from normscope.training.observer import Observer, Progress

TASK = digits.load().task(0)
SETTINGS = {"preset": "paper", "encoder": "tiny", "clip_scale": "root", "batch_size": 32}


def fitted(observer: Observer | None = None) -> Model:
    options = checked("base", settings=SETTINGS, epochs=2, false_alarm_rate=None)
    return fit(TASK.train_images, options, allow_collapse=True, observer=observer).model


@pytest.fixture(scope="module")
def observed() -> tuple[Curve, Model]:
    curve = Curve(1, *part(TASK.test_images, 60))
    return curve, fitted(curve)


def test_evaluation_during_training_changes_no_weight(observed):
    for name, value in fitted().method.state_dict().items():
        assert torch.equal(value, observed[1].method.state_dict()[name]), name


def test_a_point_has_the_epoch_the_auroc_the_losses_and_the_norms(observed):
    curve, model = observed
    points = curve.rows(TASK.test_labels.look())
    assert [point["epoch"] for point in points] == [1, 2]
    assert points[0]["seconds"] < points[1]["seconds"]
    images, chosen = part(TASK.test_images, 60)
    anomalous = TASK.test_labels.look()[chosen]
    norms = np.linalg.norm(model.codes(read(images, model.size)), axis=1)
    assert points[-1]["norm_normal"] == pytest.approx(norms[~anomalous].mean(), abs=1e-5)
    assert points[-1]["norm_anomalous"] == pytest.approx(norms[anomalous].mean(), abs=1e-5)
    assert {"information", "entropy", "beta", "loss"} <= points[0].keys()


class Mean(Method):
    """Scores by brightness, and has no codes."""

    def score(self, images, reference):
        return images.mean((1, 2, 3))


def test_losses_are_means_over_the_steps_since_the_last_point_and_images_are_read_once(monkeypatch):
    reads = []
    monkeypatch.setattr(curves, "read", lambda images, size: reads.append(size) or read(images, size))
    images = np.stack([np.full((28, 28), grey, np.uint8) for grey in (0, 10, 200, 255)])
    curve, method = Curve(1, images, np.arange(4)), Mean(None, (3, 28, 28))
    for step, loss in enumerate([1.0, 3.0, 10.0], start=1):
        progress = Progress("train", step, None, step, 0.0, {"loss": loss})
        curve.step(progress)
        if step > 1:
            curve.epoch(progress, method, {})
    points = curve.rows(np.array([False, False, True, True]))
    assert [point["loss"] for point in points] == [2.0, 10.0]
    assert points[0]["auroc"] == 1.0
    assert "norm_normal" not in points[0]
    assert reads == [(28, 28)]


def test_a_part_is_always_the_same_and_of_its_own_images():
    images = np.arange(300, dtype=np.uint8).reshape(100, 1, 3)
    some, places = part(images, 10)
    assert len(set(places)) == 10
    assert (some == images[places]).all()
    assert (part(images, 10)[1] == places).all()
    assert part(list(range(100)), 10)[0] == places.tolist()
    for most in (None, 100, 1000):
        assert part(images, most)[0] is images
