import numpy as np
import pytest
import torch

from normscope import Detector
from normscope.methods.random_encoder import RandomEncoder, Settings
from normscope.networks.resnet import layout

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 28, 28, 3), dtype=np.uint8)


def test_nothing_is_trained():
    torch.manual_seed(0)
    method = RandomEncoder(Settings(width=16), (3, 28, 28))
    assert list(method.phases()) == []
    before = {name: value.clone() for name, value in method.state_dict().items()}
    with torch.no_grad():
        method.eval().finish([torch.rand(10, 3, 28, 28), torch.rand(6, 3, 28, 28)])
    assert all(torch.equal(before[name], value) for name, value in method.state_dict().items())


def test_score_is_the_surprisal_of_the_features():
    """Half the squared Mahalanobis distance, up to a constant; in one direction it is a parabola around the mean."""
    method = RandomEncoder(Settings(width=16), (3, 28, 28)).eval()
    with torch.inference_mode():
        reference = method.finish(torch.rand(40, 3, 28, 28).split(25))
        images = torch.rand(5, 3, 28, 28)
        codes = layout(method.encoder.stages(images))
        distance = ((codes - reference["mean"]) @ reference["whitener"]).square().sum(1)
        scores = method.score(images, reference)
    assert (scores - scores[0]).numpy() == pytest.approx(((distance - distance[0]) / 2).numpy(), rel=1e-4, abs=1e-3)


def test_the_encoder_follows_from_the_seed():
    scores = [
        Detector("random-encoder", settings={"width": 16}, seed=seed).fit(IMAGES).score(IMAGES) for seed in (0, 0, 1)
    ]
    assert (scores[0] == scores[1]).all()
    assert (scores[0] != scores[2]).any()


def test_bright_images_surprise_a_detector_of_dark_ones():
    one = Detector("random-encoder", settings={"width": 16}, false_alarm_rate=None).fit(IMAGES // 4)
    assert one.score(IMAGES // 4 + 180).min() > one.score(IMAGES // 4).max()
