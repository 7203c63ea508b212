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
from normscope.scoring.centre import centre_of, squared_distance
from normscope.training.method import Batch
from normscope.training.randomness import seeded
from normscope.views.contrast import UNSEEN, stretched, widened

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
    method = small(pretraining=False, eta=eta)
    copy = deepcopy(method)
    record = method.step(Batch(images(6), images(3, seed=1)), method.optimizers("train"), 0.0)
    codes = copy.code(torch.cat([images(6), images(3, seed=1)]))
    d = [((code - method.centre) ** 2).sum().item() for code in codes]
    assert record["loss"].item() == pytest.approx((sum(d[:6]) + sum(eta / each for each in d[6:])) / 9, rel=1e-4)


def test_without_anomalies_a_step_is_that_of_deep_svdd():
    sad = small(pretraining=False, contrast=True)
    with seeded(0):
        svdd = deep_svdd.DeepSVDD(deep_svdd.Settings(width=16, pretraining=False), SHAPE)
    for method in (sad, svdd):
        optimizers = method.optimizers("train")
        for step in range(3):
            method.step(Batch(images(8, seed=step), images(0)), optimizers, step / 3)
        method.eval()
    assert torch.equal(sad.centre, svdd.centre)
    with torch.no_grad():
        scores = [method.score(images(5), method.finish([])) for method in (sad, svdd)]
        torch.testing.assert_close(*scores)


def test_anomalies_have_no_say_in_the_centre_and_the_scale():
    alone, helped = small(pretraining=False, contrast=True), small(pretraining=False, contrast=True)
    spots = torch.zeros(4, *SHAPE)
    spots[:, :, 5, 5] = 1
    for method, anomalous in ((alone, images(0)), (helped, spots)):
        method.step(Batch(images(8), anomalous), method.optimizers("train"), 0.0)
    assert torch.equal(alone.centre, helped.centre)
    assert torch.equal(alone.extremes, helped.extremes)
    assert not torch.equal(alone.encoder.linear[0].weight, helped.encoder.linear[0].weight)


def test_the_share_of_anomalies_in_a_batch_is_a_setting():
    assert small(anomaly_share=0.5).anomaly_share == 0.5


def test_images_are_scaled_to_one_or_stretched_in_contrast():
    x = images(5)
    with torch.no_grad():
        for contrast, expected in ((False, (x + 1) / 2), (True, stretched(x, widened(torch.tensor(UNSEEN), x)))):
            method = small(contrast=contrast).eval()
            reference = method.finish([x[:2], x[2:]])
            codes = method.encoder(expected)
            torch.testing.assert_close(reference["centre"], centre_of(codes))
            torch.testing.assert_close(method.score(x, reference), squared_distance(codes, reference["centre"]))


def test_pretraining_restores_anomalies_too():
    for anomalous in (images(0), images(4, seed=1)):
        method, copy = small(), small()
        record = method.step(Batch(images(8), anomalous), method.optimizers("pretrain"), 0.0)
        x = (torch.cat([images(8), anomalous]) + 1) / 2
        error = (copy.decoder(copy.encoder(x)) - x).square().mean()
        assert record["reconstruction"].item() == pytest.approx(error.item(), rel=1e-4)


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
    settings = {"network": "mnist", "learning_rate": 1e-3, "batch_size": 16, "anomaly_share": 0.5, "pretraining": False}
    found = []
    for anomalies in (None, images[bad]):
        one = Detector("deep-sad", settings=settings, epochs=12, false_alarm_rate=None)
        one.fit(task.train_images[:80], anomalies=anomalies)
        found.append(auroc(one.score(images[rest]), labels[rest]))
    without, with_them = found
    assert with_them > 0.9
    assert 1 - with_them < 0.9 * (1 - without)  # 0.56 to 0.79 of it over four seeds
