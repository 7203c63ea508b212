from copy import deepcopy

import numpy as np
import pytest
import torch

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods import deep_svdd
from normscope.methods.deep_sad import DeepSAD, Settings
from normscope.training.randomness import seeded

SHAPE = (3, 28, 28)


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def small(**settings):
    with seeded(0):
        return DeepSAD(Settings(width=16, **settings), SHAPE)


def test_the_published_settings():
    s = Settings()
    assert (s.eta, s.width, s.batch_size, s.contrast) == (1.0, 32, 128, False)
    pretrain, train = DeepSAD(s, SHAPE).phases()
    assert (pretrain.epochs, train.epochs) == (150, 150)
    assert [train.rate(epoch / 150) for epoch in (0, 49, 50, 149)] == [1, 1, 0.1, 0.1]


@pytest.mark.parametrize("eta", [1.0, 3.0])
def test_the_loss_by_hand(eta):
    """Ruff et al. 2020: d for a normal image and η·d⁻¹ for an anomaly, averaged over both."""
    method = small(pretraining=False, eta=eta, anomaly_share=0.5)
    method.anomalies = images(3, seed=1)
    copy = deepcopy(method)
    record = method.step(images(6), method.optimizers("train"), 0.0)
    codes = copy.code(torch.cat([images(6), images(3, seed=1)]))  # all three are drawn: half as many as normal ones
    d = [((code - method.centre) ** 2).sum().item() for code in codes]
    assert record["loss"].item() == pytest.approx((sum(d[:6]) + sum(eta / each for each in d[6:])) / 9, rel=1e-4)


def test_without_anomalies_a_step_is_that_of_deep_svdd():
    sad = small(pretraining=False, contrast=True)
    with seeded(0):
        svdd = deep_svdd.DeepSVDD(deep_svdd.Settings(width=16, pretraining=False), SHAPE)
    for method in (sad, svdd):
        optimizers = method.optimizers("train")
        for step in range(3):
            method.step(images(8, seed=step), optimizers, step / 3)
        method.eval()
    assert torch.equal(sad.centre, svdd.centre)
    with torch.no_grad():
        torch.testing.assert_close(sad.score(images(5)), svdd.score(images(5)))


def test_anomalies_have_no_say_in_the_centre_and_the_scale():
    alone, helped = small(pretraining=False, contrast=True), small(pretraining=False, contrast=True)
    helped.anomalies = torch.zeros(4, *SHAPE)
    helped.anomalies[:, :, 5, 5] = 1
    for method in (alone, helped):
        method.step(images(8), method.optimizers("train"), 0.0)
    assert torch.equal(alone.centre, helped.centre)
    assert torch.equal(alone.contrast.extremes, helped.contrast.extremes)
    assert not torch.equal(alone.encoder.linear[0].weight, helped.encoder.linear[0].weight)


@pytest.mark.parametrize(("share", "n", "expected"), [(0.05, 100, 5), (0.05, 8, 1), (1.0, 8, 8), (1.0, 100, 30)])
def test_a_share_of_the_anomalies_is_drawn_and_none_twice(share, n, expected):
    method = small(anomaly_share=share)
    method.anomalies = torch.arange(30.0)[:, None, None, None].expand(30, *SHAPE)
    with seeded(1):
        drawn, again = method.drawn(n)[:, 0, 0, 0], method.drawn(n)[:, 0, 0, 0]
    assert len(drawn) == len(drawn.unique()) == expected
    assert not torch.equal(drawn, again)


def test_pretraining_restores_anomalies_too():
    alone, helped = small(), small()
    helped.anomalies = images(4, seed=1)
    losses = [m.step(images(8), m.optimizers("pretrain"), 0.0)["reconstruction"].item() for m in (alone, helped)]
    copy = small()
    x = (torch.cat([images(8)]) + 1) / 2
    assert losses[0] == pytest.approx((copy.decoder(copy.encoder(x)) - x).square().mean().item(), rel=1e-4)
    assert losses[0] != losses[1]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"eta": 0.0}, "eta is 0.0"),
        ({"anomaly_share": 0.0}, "anomaly_share is 0.0"),
        ({"anomaly_share": 1.5}, "anomaly_share is 1.5"),
        ({"batch_size": 1}, "2 or more"),
    ],
)
def test_bad_settings_are_refused(settings, told):
    with pytest.raises(SettingError, match=told):
        DeepSAD(Settings(**settings), SHAPE)


def test_some_anomalies_help_to_tell_others_of_their_kind():
    task = digits.load().task(9)
    labels, images = task.test_labels.look(), task.test_images
    bad = np.flatnonzero(labels == 1)[:40]
    rest = np.setdiff1d(np.arange(len(images)), bad)
    settings = {"network": "mnist", "learning_rate": 1e-3, "batch_size": 16, "anomaly_share": 0.5}
    found = []
    for anomalies in (None, images[bad]):
        one = Detector("deep-sad", settings=settings, epochs=15, false_alarm_rate=None)
        one.fit(task.train_images[:100], anomalies=anomalies)
        found.append(auroc(one.score(images[rest]), labels[rest]))
        assert one.fitted().anomalies is None
    without, with_them = found
    assert with_them > 0.95
    assert 1 - with_them < 0.5 * (1 - without)
