import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods.dagmm import DAGMM, FLOOR, Mixture, Settings, energy, mixture, moments
from normscope.training.randomness import seeded

SHAPE = (3, 28, 28)
TASK = digits.load().task(3)


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def small(**settings):
    with seeded(0):
        return DAGMM(Settings(**{"width": 8, **settings}), SHAPE)


def some_mixture(k=3, d=4):
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(k, d, d, generator=generator).double()
    means = torch.randn(k, d, generator=generator).double()
    return Mixture(torch.tensor([0.5, 0.3, 0.2]).double(), means, root @ root.mT + torch.eye(d))


def test_the_energy_is_the_surprisal_under_the_mixture():
    z, m = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)), some_mixture()
    parts = zip(*(tensor.numpy() for tensor in m), strict=True)
    density = sum(weight * multivariate_normal(mean, covariance).pdf(z.numpy()) for weight, mean, covariance in parts)
    assert energy(z, m).numpy() == pytest.approx(-np.log(density), abs=1e-5)


def test_the_mixture_of_hard_shares_is_that_of_the_parts():
    z = torch.randn(50, 4, generator=torch.Generator().manual_seed(2)).double()
    part = torch.arange(50) % 2
    m = mixture(*moments(z, torch.nn.functional.one_hot(part)))
    assert m.weights.tolist() == [0.5, 0.5]
    for k in range(2):
        torch.testing.assert_close(m.means[k], z[part == k].mean(0), atol=1e-6, rtol=1e-6)
        expected = z[part == k].T.cov(correction=0) + FLOOR * torch.eye(4)
        torch.testing.assert_close(m.covariances[k], expected, atol=1e-6, rtol=1e-6)


def test_a_component_without_images_is_harmless():
    z = torch.randn(10, 4, generator=torch.Generator().manual_seed(2))
    shares = torch.tensor([1.0, 0.0]).expand(10, 2)
    assert energy(100 * z, mixture(*moments(z, shares))).isfinite().all()


def test_z_is_the_code_and_two_measures_of_the_error():
    method, x = small().eval(), images(3)
    with torch.no_grad():
        z, y = method.look(x)
        assert z.shape == (3, 5 + 2)
        torch.testing.assert_close(z[:, :5], method.encoder(x))
    for i in range(3):
        a, b = x[i].flatten(), y[i].flatten()
        assert z[i, 5].item() == pytest.approx(((a - b).norm() / a.norm()).item(), rel=1e-5)
        assert z[i, 6].item() == pytest.approx(((a @ b) / (a.norm() * b.norm())).item(), abs=1e-6)


def test_the_loss_has_its_three_terms():
    records = []
    for s in ({"energy": 0.0, "variance": 0.0}, {"energy": 1.0, "variance": 0.0}, {"energy": 0.0, "variance": 1.0}):
        method = small(**s)
        with seeded(1):
            records.append(method.step(images(16), method.optimizers("train"), 0.0))
    plain, with_energy, with_variance = ({k: v.item() for k, v in record.items()} for record in records)
    assert plain["loss"] == pytest.approx(plain["error"])
    assert with_energy["loss"] == pytest.approx(plain["error"] + plain["energy"], rel=1e-5)
    assert (
        with_variance["loss"] > plain["error"] + 3 * 7 / 100
    )  # Σ 1/Σ_jj: variances of a new network are far below 100


def test_after_training_the_mixture_is_that_of_all_images_however_batched():
    method, x = small().eval(), images(30)
    with torch.no_grad():
        method.finish([x])
        whole = dict(method.memory)
        method.finish(x.split(7))
        for name, value in method.memory.items():
            torch.testing.assert_close(value, whole[name], atol=1e-5, rtol=1e-4)
        z = method.code(x)
        torch.testing.assert_close(method.score(x), energy(z, mixture(*moments(z, method.estimator(z)))))


def test_the_defaults_are_geotrans_code():
    s = Settings()
    assert (s.energy, s.variance, s.components, s.code, s.width) == (0.01, 0.0005, 3, 5, 64)
    assert (s.learning_rate, s.epochs, s.batch_size) == (1e-3, 200, 256)
    layers = [m for m in DAGMM(Settings(width=8), SHAPE).estimator if isinstance(m, torch.nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == [(7, 64), (64, 10), (10, 3)]


def test_a_batch_of_one_is_refused():
    with pytest.raises(SettingError, match="batch_size is 1; give 2 or more"):
        Detector("dagmm", settings={"batch_size": 1}, epochs=1).fit(TASK.train_images)


def test_learns():
    settings, scores = {"width": 16, "batch_size": 32, "learning_rate": 3e-3}, []
    for epochs in (1, 40):
        one = Detector("dagmm", settings=settings, epochs=epochs, false_alarm_rate=None).fit(TASK.train_images)
        scores.append(auroc(one.score(TASK.test_images), TASK.test_labels.look()))
    assert scores[1] > 0.85
    assert 1 - scores[1] < 0.6 * (1 - scores[0])
    assert math.isfinite(one.score(np.zeros((1, 8, 8), np.uint8))[0])
