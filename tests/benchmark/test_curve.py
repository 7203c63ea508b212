import numpy as np
import pytest
import torch

from normscope import Detector
from normscope.benchmark.curve import Curve, part
from normscope.datasets import digits

TASK = digits.load().task(0)
SETTINGS = {"encoder": "tiny", "clip_scale": "root", "batch_size": 32}


@pytest.fixture(scope="module")
def looked() -> tuple[Curve, Detector]:
    detector = Detector("base", settings=SETTINGS, epochs=2, false_alarm_rate=None)
    images, chosen = part(TASK.test_images, 60)
    curve = Curve(detector, images, chosen)
    detector.fit(TASK.train_images, allow_collapse=True, watch=curve.watch, look=curve.look)
    return curve, detector


def test_evaluation_during_training_changes_no_weight(looked):
    alone = Detector("base", settings=SETTINGS, epochs=2, false_alarm_rate=None)
    alone.fit(TASK.train_images, allow_collapse=True)
    for name, value in alone.tensors().items():
        torch.testing.assert_close(value, looked[1].tensors()[name], rtol=0, atol=0, equal_nan=True, msg=name)


def test_a_point_has_the_epoch_the_auroc_the_losses_and_the_lengths(looked):
    curve, detector = looked
    points = curve.points(TASK.test_labels.look())
    assert [point["epoch"] for point in points] == [1, 2]
    assert points[0]["seconds"] < points[1]["seconds"]
    images, chosen = part(TASK.test_images, 60)
    anomalous = TASK.test_labels.look()[chosen]
    lengths = np.linalg.norm(detector.codes(images), axis=1)
    assert points[-1]["norm_normal"] == pytest.approx(lengths[~anomalous].mean(), abs=1e-5)
    assert points[-1]["norm_anomalous"] == pytest.approx(lengths[anomalous].mean(), abs=1e-5)
    assert {"information", "entropy", "beta", "loss"} <= points[0].keys()


def test_losses_are_means_over_the_steps_since_the_last_look():
    from normscope.training.loop import Progress

    class Silent:
        def score(self, images):
            return np.arange(len(images), dtype=float)

        def codes(self, images):
            return np.ones((len(images), 2))

    curve = Curve(Silent(), np.zeros((4, 2, 2), np.uint8), np.arange(4))
    for step, loss in enumerate([1.0, 3.0, 10.0], start=1):
        progress = Progress("train", step, None, step, 0.0, {"loss": loss})
        curve.watch(progress)
        if step > 1:
            curve.look(progress)
    assert [point["loss"] for point in curve.points(np.array([False, False, True, True]))] == [2.0, 10.0]
    assert curve.points(np.array([False, False, True, True]))[0]["auroc"] == 1.0


def test_a_method_without_codes_has_no_lengths():
    detector = Detector("knn", false_alarm_rate=None).fit(TASK.train_images)
    assert Curve(detector, TASK.test_images[:5], np.arange(5)).lengths() is None


def test_a_part_is_always_the_same_and_of_its_own_images():
    images = np.arange(300, dtype=np.uint8).reshape(100, 1, 3)
    some, places = part(images, 10)
    assert len(set(places)) == 10
    assert (some == images[places]).all()
    assert (part(images, 10)[1] == places).all()
    assert part(list(range(100)), 10)[0] == places.tolist()
    for most in (None, 100, 1000):
        assert part(images, most)[0] is images
