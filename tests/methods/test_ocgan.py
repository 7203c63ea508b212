import pytest
import torch
import torch.nn.functional as F

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods.ocgan import OCGAN, Settings
from normscope.training.randomness import seeded

IMAGES = torch.rand(6, 3, 28, 28, generator=torch.Generator().manual_seed(0)) * 2 - 1


def small(**settings: float) -> OCGAN:
    with seeded(0):
        return OCGAN(Settings(width=8, critic_width=8, **settings), (3, 28, 28))


def test_defaults_are_those_of_the_readme():
    method = OCGAN(Settings(), (3, 32, 32))
    assert [(phase.name, phase.epochs) for phase in method.phases()] == [("train", 201)]
    for adam in method.optimizers("train").values():
        assert (adam.defaults["lr"], adam.defaults["betas"]) == (2e-4, (0.5, 0.999))
    sizes = [layer.out_features for layer in method.latent if isinstance(layer, torch.nn.Linear)]
    assert sizes == [128, 64, 32, 16, 1]
    assert [method.visual.body[0].out_channels, method.classifier.body[0].out_channels] == [12, 64]


def test_codes_and_draws_are_in_the_cube():
    method = small()
    drawn = method.uniform(IMAGES.repeat(100, 1, 1, 1))
    assert drawn.shape == (600, 16)
    assert -1 <= drawn.min() < -0.99
    assert 0.99 < drawn.max() <= 1
    assert method.code(100 * IMAGES).abs().max() <= 1


def test_discriminators_take_images_and_uniform_codes_for_real():
    method = small().eval()
    z, drawn = torch.rand(6, 16), torch.rand_like(IMAGES)
    with seeded(1):
        loss = method.discriminators_loss(IMAGES, z, drawn)
    with seeded(1):
        u = method.uniform(IMAGES)
    latent = F.softplus(-method.latent(u)).mean() + F.softplus(method.latent(z)).mean()
    visual = F.softplus(-method.visual(IMAGES)).mean() + F.softplus(method.visual(drawn)).mean()
    assert loss.item() == pytest.approx(((latent + visual) / 2).item(), rel=1e-5)


def test_loss_of_the_autoencoder():
    method, noisy, negatives = small().eval(), IMAGES + 0.1, torch.rand(6, 16)
    loss, reconstruction = method.autoencoder_loss(IMAGES, noisy, negatives)
    z = method.code(noisy)
    assert reconstruction.item() == pytest.approx((method.decoder(z) - IMAGES).square().mean().item() / 2)
    latent = F.softplus(-method.latent(z)).mean()
    visual = F.softplus(-method.visual(method.decoder(negatives))).mean()
    assert loss.item() == pytest.approx((10 * latent + visual + 10 * reconstruction).item(), rel=1e-5)


def test_mined_negatives_look_less_like_reconstructions():
    method = small(mining_from=0.5).eval()
    with torch.no_grad():
        for weight in [*method.decoder.parameters(), *method.classifier.parameters()]:
            if weight.dim() > 1:
                weight.mul_(5)  # first weights are nearly blind to the code
    logits = []
    for progress in (0.49, 0.5):
        with seeded(1), torch.enable_grad():
            negatives = method.negatives(IMAGES, progress)
        assert negatives.abs().max() <= 1
        assert not negatives.requires_grad
        logits.append(method.classifier(method.decoder(negatives)))
    assert (logits[1] < logits[0]).all()


def test_a_mined_step_is_twice_the_images_own_gradient():
    method = small(mining_from=0.0).eval()
    with seeded(1):
        negatives = method.negatives(IMAGES, 0.0)
    with seeded(1):
        m = method.uniform(IMAGES).requires_grad_()
    F.softplus(method.classifier(method.decoder(m.tanh()))).sum().backward()
    assert torch.allclose(negatives, (m - 2 * m.grad).tanh(), atol=1e-6)


def test_every_network_learns_in_a_step():
    method = small()
    before = {name: value.clone() for name, value in method.named_parameters()}
    method.step(IMAGES, method.optimizers("train"), 0.9)
    moved = {name.split(".")[0] for name, value in method.named_parameters() if not torch.equal(before[name], value)}
    assert moved == {"encoder", "decoder", "latent", "visual", "classifier"}


@pytest.mark.parametrize(("noise", "same"), [(0.0, True), (0.5, False)])
def test_noise_is_added_to_what_is_encoded(noise, same):
    method, seen = small(noise=noise), []
    method.encoder.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    method.step(IMAGES, method.optimizers("train"), 0.0)
    assert torch.equal(seen[0], IMAGES) == same
    assert (seen[0] - IMAGES).std().item() == pytest.approx(noise, rel=0.05)


def test_score_is_the_mean_squared_error_without_noise():
    method = small().eval()
    with torch.inference_mode():
        made = method.decoder(method.code(IMAGES))
        assert torch.allclose(method.score(IMAGES), (IMAGES - made).square().mean((1, 2, 3)))
        assert torch.equal(method.score(IMAGES), method.score(IMAGES))


@pytest.mark.parametrize(("wrong", "advice"), [({"noise": -1.0}, "from 0 on"), ({"mining_from": 2.0}, "from 0 to 1")])
def test_what_makes_no_sense_is_refused(wrong, advice):
    with pytest.raises(SettingError, match=advice):
        small(**wrong)


def test_learns_digits():
    task = digits.load().task(3)
    settings = {"width": 16, "batch_size": 16}
    ways = [
        Detector("ocgan", settings={**settings, "learning_rate": rate}, epochs=12, false_alarm_rate=None)
        for rate in (1e-9, 1e-3)
    ]
    untrained, trained = (
        auroc(one.fit(task.train_images).score(task.test_images), task.test_labels.look()) for one in ways
    )
    assert trained > 0.9
    assert trained > untrained + 0.2
