import math

import numpy as np
import pytest
import torch

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods.vae import VAE, Settings, divergence
from normscope.training.randomness import seeded

SHAPE = (3, 28, 28)
TASK = digits.load().task(3)


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def small(**settings):
    with seeded(0):
        return VAE(Settings(width=16, code=4, **settings), SHAPE)


def bce(p, x):
    return -(x * p.log() + (1 - x) * (1 - p).log()).flatten(1).sum(1)


def test_the_networks_are_those_of_deep_sad():
    method = VAE(Settings(), (3, 32, 32))
    layers = [[m for m in net if isinstance(m, torch.nn.Linear)] for net in (method.encoder, method.decoder)]
    sizes = [[(layer.in_features, layer.out_features) for layer in net] for net in layers]
    assert sizes == [[(3072, 512), (512, 256), (256, 2 * 128)], [(128, 256), (256, 512), (512, 3072)]]
    assert all((layer.bias == 0).all() for net in layers for layer in net)
    xavier = math.sqrt(2 / (3072 + 512))
    assert layers[0][0].weight.std().item() == pytest.approx(xavier, rel=0.01)
    (adam,) = method.optimizers("train").values()
    assert (adam.defaults["lr"], adam.defaults["weight_decay"]) == (1e-3, 1e-6)
    assert (method.phases()[0].epochs, method.settings.batch_size) == (100, 128)


def test_the_divergence_is_the_difference_of_the_log_densities():
    mean, log_variance, noise = (torch.randn(5, 4, generator=torch.Generator().manual_seed(k)) for k in range(3))
    deviation = (log_variance / 2).exp()
    z = mean + noise * deviation
    q, p = torch.distributions.Normal(mean, deviation), torch.distributions.Normal(0.0, 1.0)
    expected = (q.log_prob(z) - p.log_prob(z)).sum(1)
    torch.testing.assert_close(divergence(z, noise, log_variance), expected, atol=1e-4, rtol=1e-4)


def test_its_mean_over_draws_is_the_closed_form():
    mean, log_variance = torch.tensor([0.5, -1.0]), torch.tensor([0.3, -0.8])
    noise = torch.randn(100_000, 2, generator=torch.Generator().manual_seed(0))
    drawn = divergence(mean + noise * (log_variance / 2).exp(), noise, log_variance.expand_as(noise)).mean()
    closed = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum()
    assert drawn.item() == pytest.approx(closed.item(), abs=0.02)  # 4 standard errors


def test_a_step_records_the_loss_at_its_draw():
    method, x = small(), images(6)
    mean, log_variance = (part.detach() for part in method.posterior(x))
    with seeded(3):
        noise = torch.randn_like(mean)
    z = mean + noise * (log_variance / 2).exp()
    reconstruction = bce(method.decoder(z).sigmoid(), ((x + 1) / 2).flatten(1)).mean()
    with seeded(3):
        record = method.step(x, method.optimizers("train"), 0.0)
    assert record["reconstruction"].item() == pytest.approx(reconstruction.item(), rel=1e-5)
    assert record["kl"].item() == pytest.approx(divergence(z, noise, log_variance).mean().item(), rel=1e-4)
    assert record["loss"].item() == pytest.approx((record["reconstruction"] + record["kl"]).item())


def test_the_score_is_the_cross_entropy_of_the_reconstruction():
    method, x = small(score="mean").eval(), images(5)
    with torch.no_grad():
        expected = bce(method.decoder(method.code(x)).sigmoid(), ((x + 1) / 2).flatten(1))
        torch.testing.assert_close(method.score(x), expected)


def test_a_drawn_score_uses_the_same_noise_for_every_image():
    method, x = small().eval(), images(5)
    with seeded(0):
        noise = torch.randn(4)
    with torch.no_grad():
        mean, log_variance = method.posterior(x)
        logits = method.decoder(mean + noise * (log_variance / 2).exp())
        torch.testing.assert_close(method.score(x), bce(logits.sigmoid(), ((x + 1) / 2).flatten(1)))
        assert (method.score(x) - small(score="mean").eval().score(x)).abs().min() > 0.01


def test_a_second_layer_of_nothing_is_refused():
    with pytest.raises(SettingError, match="width is 1; give 2 or more"):
        Detector("vae", settings={"width": 1}, epochs=1).fit(TASK.train_images)


def test_learns_and_shows_where():
    settings = {"width": 64, "code": 8, "batch_size": 16}
    scores = []
    for epochs in (1, 60):
        one = Detector("vae", settings=settings, epochs=epochs, false_alarm_rate=None).fit(TASK.train_images)
        scores.append(auroc(one.score(TASK.test_images), TASK.test_labels.look()))
    assert scores[1] > 0.93
    assert 1 - scores[1] < 0.6 * (1 - scores[0])
    spoilt = TASK.train_images[:20].copy()
    spoilt[:, :3, :2] = 255
    heat = one.explain(spoilt)
    assert np.median(heat[:, :3, :2].mean((1, 2)) / heat.mean((1, 2))) > 2
