import pytest
import torch
import torch.nn.functional as F

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods.anogan import AnoGAN, Settings
from normscope.training.randomness import seeded

IMAGES = torch.rand(6, 3, 28, 28, generator=torch.Generator().manual_seed(0)) * 2 - 1


def small(**settings: object) -> AnoGAN:
    with seeded(0):
        return AnoGAN(Settings(width=8, latent=10, **settings), (3, 28, 28))


def wide_awake(**settings: object) -> AnoGAN:
    """With weights so large that codes make a difference: first ones are nearly blind."""
    method = small(**settings).eval()
    for weight in method.averaged.parameters():
        if weight.dim() > 1:
            weight.mul_(10)
    return method


def scores(method: AnoGAN, images: torch.Tensor = IMAGES) -> torch.Tensor:
    with torch.inference_mode():
        return method.score(images)


def test_defaults_are_the_published_ones():
    method = AnoGAN(Settings(), (3, 32, 32))
    assert [phase.name for phase in method.phases()] == ["gan"]
    for adam in method.optimizers("gan").values():
        assert (adam.defaults["lr"], adam.defaults["betas"]) == (2e-4, (0.5, 0.999))
    assert method.gan["generator"].body[0].in_features == 100
    assert method.gan["discriminator"].head.in_features == 512 * 4 * 4
    assert method.gan["discriminator"].body[2].weight.std().item() == pytest.approx(0.01, rel=0.02)


def test_both_losses_are_the_non_saturating_ones():
    method = small()
    with seeded(1):
        record = method.step(IMAGES, method.optimizers("gan"), 0.0)
    again = small()
    with seeded(1):
        made = again.gan["generator"](torch.randn(6, 10))
    real, fake = again.gan["discriminator"](IMAGES), again.gan["discriminator"](made)
    assert record["discriminator"].item() == pytest.approx((F.softplus(-real).mean() + F.softplus(fake).mean()).item())
    judged = method.gan["discriminator"](made)  # after its own update, before which the loss would be the same
    assert record["loss"].item() == pytest.approx(F.softplus(-judged).mean().item(), rel=1e-4)


def test_the_search_makes_the_image_better_with_every_step():
    distances = [scores(wide_awake(search_steps=steps, search_rate=0.05)) for steps in (1, 10, 100)]
    assert (distances[0] > distances[1]).all()
    assert (distances[1] > distances[2]).all()


def test_an_image_that_can_be_made_is_found():
    method = wide_awake(search_steps=300, search_rate=0.05)
    with seeded(3):
        made = method.averaged["generator"](torch.randn(4, 10))
    assert scores(method, made).max() < 0.3 * scores(method).min()


def test_score_weighs_residual_and_features():
    method = wide_awake(search_steps=2)
    with torch.inference_mode():
        z = method.code(IMAGES)
        made, f = method.averaged["generator"](z), method.averaged["discriminator"].features
        residual = (IMAGES - made).abs().sum((1, 2, 3))
        features = (f(IMAGES) - f(made)).abs().sum(1)
        assert torch.allclose(method.score(IMAGES), 0.9 * residual + 0.1 * features, rtol=1e-4)
        assert torch.allclose(method.explain(IMAGES), (IMAGES - made).square().mean(1), rtol=1e-4)


def test_scores_do_not_depend_on_the_company_however_long_the_search():
    method = wide_awake(search_steps=50, search_rate=0.1)
    many = torch.rand(20, 3, 28, 28, generator=torch.Generator().manual_seed(1)) * 2 - 1
    together = scores(method, many)
    for i in (0, 7, 19):
        assert scores(method, many[i : i + 1]).item() == pytest.approx(together[i].item(), rel=1e-5)


@pytest.mark.parametrize(("average", "share"), [(0.0, 1.0), (1.0, 9 / 11)])
def test_the_scoring_networks_follow_the_trained_ones(average, share):
    """After one step the average forgets 1 − min(average, 2 / 11)."""
    method = small(average=average)
    before = method.averaged["generator"].body[0].weight.clone()
    method.step(IMAGES, method.optimizers("gan"), 0.0)
    moved = method.gan["generator"].body[0].weight.detach() - before
    assert torch.allclose(method.averaged["generator"].body[0].weight - before, share * moved, atol=1e-6)
    assert moved.abs().max() > 1e-4
    norms = [method.averaged["generator"].body[2].running_var, method.gan["generator"].body[2].running_var]
    assert torch.allclose(norms[0] - 1, share * (norms[1] - 1), atol=1e-5)


def test_the_encoder_form_has_a_phase_for_the_encoder():
    method = small(search="encoder")
    assert [phase.name for phase in method.phases()] == ["gan", "encoder"]
    (rmsprop,) = method.optimizers("encoder").values()
    assert isinstance(rmsprop, torch.optim.RMSprop)
    assert rmsprop.defaults["lr"] == 5e-5
    gan = {name: value.clone() for name, value in method.averaged.state_dict().items()}
    record = method.step(IMAGES, {"encoder": rmsprop}, 0.0)
    assert all(torch.equal(gan[name], value) for name, value in method.averaged.state_dict().items())
    assert record["loss"] > 0


@pytest.mark.parametrize("kappa", [0.0, 1.0, 3.0])
def test_score_of_the_encoder_form(kappa):
    method = wide_awake(search="encoder", kappa=kappa)
    with torch.inference_mode():
        made, f = method.averaged["generator"](method.code(IMAGES)), method.averaged["discriminator"].features
        expected = (IMAGES - made).square().mean((1, 2, 3)) + kappa * (f(IMAGES) - f(made)).square().mean(1)
        assert torch.allclose(method.score(IMAGES), expected, rtol=1e-4)


@pytest.mark.parametrize("wrong", [{"feature_weight": 1.5}, {"average": -0.1}])
def test_a_share_that_is_none_is_refused(wrong):
    with pytest.raises(SettingError, match="from 0 to 1"):
        small(**wrong)


@pytest.mark.parametrize("search", ["latent", "encoder"])
def test_learns_digits(search):
    task = digits.load().task(3)
    images, labels = task.test_images[:150], task.test_labels.look()[:150]
    settings = {"width": 16, "batch_size": 16, "search": search, "search_steps": 10}
    ways = [
        Detector("anogan", settings={**settings, "learning_rate": rate}, epochs=12, false_alarm_rate=None)
        for rate in (1e-9, 2e-3)
    ]
    untrained, trained = (auroc(one.fit(task.train_images).score(images), labels) for one in ways)
    assert trained > 0.85
    assert trained > untrained + 0.1
