import numpy as np
import pytest
import torch

from normscope import Detector
from normscope.methods.knn import KNN, Settings


def method(normal: torch.Tensor, k: int) -> KNN:
    one = KNN(Settings(k=k), (3, 2, 2))
    one.finish([normal[:2], normal[2:]])
    return one


def test_score_is_the_mean_distance_to_the_k_nearest():
    normal = torch.tensor([0.0, 1.0, 3.0, 7.0])[:, None, None, None].expand(4, 3, 2, 2)
    image = torch.full((1, 3, 2, 2), 1.0)
    unit = 12**0.5  # all twelve values differ by the same
    assert method(normal, 1).score(image).item() == pytest.approx(0)
    assert method(normal, 2).score(image).item() == pytest.approx(unit * (0 + 1) / 2)
    assert method(normal, 3).score(image).item() == pytest.approx(unit * (0 + 1 + 2) / 3)


def test_more_neighbours_than_images_takes_them_all():
    normal = torch.tensor([0.0, 1.0, 3.0])[:, None, None, None].expand(3, 3, 2, 2)
    assert method(normal, 50).score(normal[:1]).item() == pytest.approx(12**0.5 * 4 / 3)


def test_training_images_of_a_detector_are_its_memory():
    images = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    one = Detector("knn", settings={"k": 1}, false_alarm_rate=None).fit(images)
    assert one.fitted().memory["pixels"].shape == (20, 3 * 28 * 28)
    assert one.score(images) == pytest.approx(0, abs=1e-4)
    assert one.card["training"]["steps"] == 0


def test_held_out_images_are_not_remembered():
    images = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    one = Detector("knn", settings={"k": 1}, false_alarm_rate=0.2).fit(images)
    assert len(one.fitted().memory["pixels"]) == 15
    assert (one.calibration.scores > 10).all()
    assert (one.score(images) > 10).sum() == 5
