import numpy as np
import pytest
import torch

from normscope import Detector
from normscope.methods.knn import KNN, Settings


def score(image: torch.Tensor, normal: torch.Tensor, k: int) -> float:
    method = KNN(Settings(k=k), (3, 2, 2))
    return method.score(image, method.finish([normal[:2], normal[2:]])).item()


def test_score_is_the_mean_distance_to_the_k_nearest():
    normal = torch.tensor([0.0, 1.0, 3.0, 7.0])[:, None, None, None].expand(4, 3, 2, 2)
    image = torch.full((1, 3, 2, 2), 1.0)
    unit = 12**0.5  # all twelve values differ by the same
    assert score(image, normal, 1) == pytest.approx(0)
    assert score(image, normal, 2) == pytest.approx(unit * (0 + 1) / 2)
    assert score(image, normal, 3) == pytest.approx(unit * (0 + 1 + 2) / 3)


def test_more_neighbours_than_images_takes_them_all():
    normal = torch.tensor([0.0, 1.0, 3.0])[:, None, None, None].expand(3, 3, 2, 2)
    assert score(normal[:1], normal, 50) == pytest.approx(12**0.5 * 4 / 3)


def test_training_images_of_a_detector_are_its_reference():
    images = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    one = Detector("knn", settings={"k": 1}, false_alarm_rate=None).fit(images)
    assert one.model.reference["pixels"].shape == (20, 3 * 28 * 28)
    assert one.score(images) == pytest.approx(0, abs=1e-4)
    assert one.card["training"]["steps"] == 0


def test_no_image_is_calibrated_by_a_reference_that_holds_it():
    images = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    one = Detector("knn", settings={"k": 1}, false_alarm_rate=0.2).fit(images)
    assert len(one.model.reference["pixels"]) == len(one.calibration.scores) == 20
    assert (one.calibration.scores > 10).all()
    assert one.score(images) == pytest.approx(0, abs=1e-4)
