import numpy as np
import pytest
import torch

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods.autoencoder import Autoencoder, Settings
from normscope.objective import entropy
from normscope.training.randomness import seeded

SHAPE = (3, 28, 28)
TASK = digits.load().task(3)
SMALL = {"width": 8, "code": 16, "batch_size": 16}


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def small(**settings):
    with seeded(0):
        return Autoencoder(Settings(**{**SMALL, **settings}), SHAPE)


def fitted(epochs, **settings):
    return Detector("autoencoder", settings=SMALL | settings, epochs=epochs, false_alarm_rate=None)


@pytest.mark.parametrize("bound", entropy.__all__)
def test_the_loss_is_error_plus_beta_times_entropy(bound):
    h, x = getattr(entropy, bound), images(6)
    method = small(beta=0.7, entropy=h)
    z = method.code(x)
    error = (method.decoder(z) - x).square().mean()
    record = method.step(x, method.optimizers("train"), 0.0)
    assert record["error"].item() == pytest.approx(error.item(), rel=1e-4)
    assert record["loss"].item() == pytest.approx((error + 0.7 * h(z)).item(), rel=1e-4)


def test_without_beta_entropy_is_recorded_and_has_no_say():
    states = []
    for h in (entropy.laplace, entropy.gaussian):
        method = small(entropy=h)
        record = method.step(images(6), method.optimizers("train"), 0.0)
        assert record["loss"] == record["error"]
        states.append(torch.cat([p.detach().flatten() for p in method.parameters()]))
    assert torch.equal(*states)


def test_beta_lowers_the_entropy_of_the_codes():
    codes = [fitted(6, beta=beta).fit(TASK.train_images).codes(TASK.train_images) for beta in (0.0, 0.3)]
    assert np.abs(codes[1]).mean() < 0.5 * np.abs(codes[0]).mean()


def test_small_codes_cost_nothing_unless_there_is_noise():
    errors = []
    for noise in (0.0, 0.3):
        seen = []
        one = fitted(15, beta=10.0, noise=noise, learning_rate=5e-3)
        one.fit(TASK.train_images, watch=lambda progress, seen=seen: seen.append(progress.record["error"]))
        errors.append(np.mean(seen[-6:]))
    assert errors[1] > 1.2 * errors[0]


def test_noise_blurs_codes_in_training_alone():
    quiet, noisy, x = small(), small(noise=2.0), images(6)
    with seeded(1):
        errors = [method.step(x, method.optimizers("train"), 0.0)["error"] for method in (quiet, noisy)]
    assert errors[0] != errors[1]
    noisy.eval()
    with torch.no_grad():
        assert torch.equal(noisy.score(x), noisy.score(x))


def test_the_score_is_the_mean_squared_error():
    method, x = small().eval(), images(5)
    with torch.no_grad():
        z = torch.tanh(method.encoder(x))
        expected = (method.decoder(z) - x).square().flatten(1).mean(1)
        torch.testing.assert_close(method.score(x), expected)
        assert torch.equal(method.code(x), z)


def test_the_defaults_are_geotrans_code():
    s = Settings()
    assert (s.width, s.code, s.learning_rate, s.epochs, s.batch_size) == (64, 256, 1e-3, 200, 128)
    assert (s.beta, s.noise, s.entropy) == (0, 0, entropy.laplace)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": 1}, "batch_size is 1; give 2"),
        ({"beta": -1.0}, "give 0 or more"),
        ({"noise": -1.0}, "give 0 or"),
    ],
)
def test_what_cannot_be_is_refused(wrong, message):
    with pytest.raises(SettingError, match=message):
        fitted(1, **wrong).fit(TASK.train_images)


def test_learns_and_shows_where():
    scores = []
    for epochs in (1, 25):
        one = fitted(epochs, width=16).fit(TASK.train_images)
        scores.append(auroc(one.score(TASK.test_images), TASK.test_labels.look()))
    assert scores[1] > 0.9
    assert 1 - scores[1] < 0.6 * (1 - scores[0])
    spoilt = TASK.train_images[:20].copy()
    spoilt[:, :3, :2] = 255
    heat = one.explain(spoilt)
    assert np.median(heat[:, :3, :2].mean((1, 2)) / heat.mean((1, 2))) > 2
