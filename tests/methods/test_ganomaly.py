import math

import pytest
import torch
import torch.nn.functional as F

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods import ganomaly
from normscope.methods.ganomaly import GANomaly, Settings
from normscope.training.randomness import seeded

IMAGES = torch.rand(6, 3, 28, 28, generator=torch.Generator().manual_seed(0)) * 2 - 1


def small(**settings: float) -> GANomaly:
    with seeded(0):
        return GANomaly(Settings(width=8, latent=10, **settings), (3, 28, 28))


def step(method: GANomaly) -> dict[str, float]:
    return {name: value.item() for name, value in method.step(IMAGES, method.optimizers("train"), 0.0).items()}


def test_defaults_are_the_published_ones():
    method = GANomaly(Settings(), (3, 32, 32))
    assert [(phase.name, phase.epochs) for phase in method.phases()] == [("train", 15)]
    for adam in method.optimizers("train").values():
        assert (adam.defaults["lr"], adam.defaults["betas"]) == (2e-4, (0.5, 0.999))
    assert method.encoder.head.out_features == 100
    assert method.encoder.head.in_features == 256 * 4 * 4


def test_losses_are_those_of_the_paper():
    method, record = small(), step(small())
    z = method.encoder(IMAGES)
    made = method.decoder(z)
    again, f = method.second(made), method.discriminator.features
    features = (f(IMAGES) - f(made)).square().mean()
    expected = features + 50 * (IMAGES - made).abs().mean() + (z - again).square().mean()
    assert record["loss"] == pytest.approx(expected.item(), rel=1e-5)
    real, fake = method.discriminator(IMAGES), method.discriminator(made)
    mistakes = (F.softplus(-real).mean() + F.softplus(fake).mean()) / 2
    assert record["discriminator"] == pytest.approx(mistakes.item(), rel=1e-5)


@pytest.mark.parametrize("name", ["adversarial", "reconstruction", "encoding"])
def test_each_weight_scales_its_own_part(name):
    nothing = dict.fromkeys(("adversarial", "reconstruction", "encoding"), 0.0)
    assert step(small(**nothing))["loss"] == 0
    one, two = step(small(**nothing | {name: 1.0}))["loss"], step(small(**nothing | {name: 2.0}))["loss"]
    assert one > 0
    assert two == pytest.approx(2 * one, rel=1e-5)


def test_the_second_encoder_is_not_the_first():
    method = small()
    assert not torch.equal(method.encoder.head.weight, method.second.head.weight)


def test_score_is_the_squared_change_of_the_code():
    method = small().eval()
    with torch.inference_mode():
        z, made = method.code(IMAGES), method.decoder(method.code(IMAGES))
        assert torch.allclose(method.score(IMAGES), ((z - method.second(made)) ** 2).sum(1) / 10)
        assert torch.allclose(method.explain(IMAGES), ((IMAGES - made) ** 2).sum(1) / 3)


@pytest.mark.parametrize(("least", "afresh"), [(0.0, False), (math.inf, True)])
def test_a_discriminator_that_is_never_mistaken_begins_afresh(monkeypatch, least, afresh):
    monkeypatch.setattr(ganomaly, "LEAST_LOSS", least)
    method = small()
    before = method.discriminator.body[0].weight.clone()
    step(method)
    moved = (method.discriminator.body[0].weight - before).abs().max().item()
    assert (moved > 0.01) == afresh  # a step of Adam is 2e-4 long, the weights' deviation is 0.02


def test_a_negative_weight_is_refused():
    with pytest.raises(SettingError, match="from 0 on"):
        small(encoding=-1.0)


def test_learns_digits():
    task = digits.load().task(3)
    settings = {"width": 16, "batch_size": 16}
    scores = [
        Detector("ganomaly", settings={**settings, "learning_rate": rate}, epochs=20, false_alarm_rate=None)
        .fit(task.train_images)
        .score(task.test_images)
        for rate in (1e-9, 5e-4)
    ]
    untrained, trained = (auroc(one, task.test_labels.look()) for one in scores)
    assert trained > 0.9
    assert trained > untrained + 0.1
