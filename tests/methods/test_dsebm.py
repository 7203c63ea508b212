import numpy as np
import pytest
import torch

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods.dsebm import DSEBM, Settings
from normscope.training.randomness import seeded

SHAPE = (3, 28, 28)
TASK = digits.load().task(3)
SMALL = {"width": 8, "hidden": 32}


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def small(**settings):
    with seeded(0):
        method = DSEBM(Settings(**{**SMALL, **settings}), SHAPE)
        torch.nn.init.normal_(method.bias, std=0.3)
    return method


def test_the_score_is_the_energy():
    method, x = small().eval(), images(5)
    with torch.no_grad():
        h = method.encoder(x).clamp(min=0)
        expected = [0.5 * ((x[i] - method.bias) ** 2).sum() - h[i].sum() for i in range(5)]
        torch.testing.assert_close(method.score(x), torch.stack(expected))


@pytest.mark.parametrize("inference", [True, False])
def test_the_reconstruction_is_a_step_down_the_energy(inference):
    """r(x) = x − ∇E(x), with the gradient by differences in a random direction, in float64."""
    method, x = small().eval().double(), images(4).double()
    direction, step = images(4, seed=1).double(), 1e-6
    with torch.inference_mode(inference):
        x = x.clone()
        slope = (method.score(x + step * direction) - method.score(x - step * direction)) / (2 * step)
        restored = method.reconstruct(x)
        assert ((x - restored) * direction).sum((1, 2, 3)).tolist() == pytest.approx(slope.tolist(), rel=1e-4)
        assert not restored.requires_grad


def test_the_other_score_is_the_reconstruction_error():
    method, x = small(score="reconstruction").eval(), images(4)
    error = x - method.reconstruct(x)
    torch.testing.assert_close(method.score(x), error.square().flatten(1).sum(1).detach())
    torch.testing.assert_close(method.explain(x), error.square().mean(1))


def test_a_step_lowers_the_error_of_denoising():
    method, x = small(noise=0.5), images(8)
    before = {name: parameter.clone() for name, parameter in method.named_parameters()}
    with seeded(1):
        noisy = x + 0.5 * torch.randn_like(x)
    expected = (method.reconstruct(noisy) - x).square().mean()
    with seeded(1):
        record = method.step(x, method.optimizers("train"), 0.0)
    assert record["loss"].item() == pytest.approx(expected.item(), rel=1e-4)
    changed = {name for name, parameter in method.named_parameters() if not torch.equal(parameter, before[name])}
    weights = {name for name, parameter in method.named_parameters() if parameter.dim() > 1}
    assert weights <= changed  # double back-propagation reaches all of them


def test_the_defaults_are_geotrans_code():
    s = Settings()
    assert (s.noise, s.score, s.width, s.hidden) == (0.5, "energy", 64, 256)
    assert (s.learning_rate, s.epochs, s.batch_size) == (1e-3, 200, 128)
    assert (DSEBM(Settings(**SMALL), SHAPE).bias == 0).all()


def test_negative_noise_is_refused():
    with pytest.raises(SettingError, match=r"noise is -1\.0; give a standard deviation"):
        Detector("dsebm", settings={"noise": -1.0}, epochs=1).fit(TASK.train_images)


@pytest.mark.parametrize("score", ["energy", "reconstruction"])
def test_learns(score):
    settings, scores, losses = {"width": 16, "batch_size": 16, "score": score, "learning_rate": 3e-3}, [], []
    for epochs in (1, 20):
        one = Detector("dsebm", settings=settings, epochs=epochs, false_alarm_rate=None)
        one.fit(TASK.train_images, watch=lambda progress: losses.append(progress.record["loss"]))
        scores.append(auroc(one.score(TASK.test_images), TASK.test_labels.look()))
    assert scores[1] > 0.8
    assert 1 - scores[1] < 0.6 * (1 - scores[0])
    assert np.mean(losses[-6:]) < 0.5 * losses[0]
