import pytest
import torch
from torch.optim import Adam

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.methods.adgan import ADGAN, STARTS, Settings
from normscope.training.randomness import seeded

IMAGES = torch.rand(4, 3, 28, 28, generator=torch.Generator().manual_seed(0)) * 2 - 1


def small(**settings: object) -> ADGAN:
    with seeded(0):
        return ADGAN(Settings(width=8, latent=10, **settings), (3, 28, 28))


def scores(method: ADGAN, images: torch.Tensor = IMAGES) -> torch.Tensor:
    with torch.inference_mode():
        return method.eval().score(images)


def searched_one_by_one(method: ADGAN, image: torch.Tensor) -> float:
    """The published search, with a generator that is copied for every start and no batching."""
    s = method.settings
    with seeded(STARTS):
        starts = torch.randn(s.starts, s.latent)
    left = []
    for start in starts:
        generator = small(starts=s.starts, rounds=s.rounds).generator.eval()
        generator.load_state_dict(method.generator.state_dict())
        z = start[None].clone().requires_grad_()
        steps = [
            Adam([z], s.search_rate, betas=(0.5, 0.999)),
            Adam(generator.parameters(), s.adapt_rate, betas=(0.5, 0.999)),
        ]
        for optimizer in steps * s.rounds:
            optimizer.zero_grad()
            (generator(z) - image).square().mean().backward()
            optimizer.step()
        left.append((generator(z) - image).square().mean().item())
    return sum(left) / len(left)


def test_defaults_are_the_published_ones():
    method = ADGAN(Settings(), (3, 32, 32))
    (phase,) = method.phases()
    assert (phase.epochs, phase.least_steps) == (100, 10_000)
    for adam in method.optimizers("train").values():
        assert (adam.defaults["lr"], adam.defaults["betas"]) == (1e-4, (0.0, 0.9))
    assert method.generator.body[0].in_features == 256
    assert method.critic.head.in_features == 256 * 4 * 4
    assert isinstance(method.critic.body[1], torch.nn.BatchNorm2d)


def test_score_is_that_of_the_search_with_a_copied_generator():
    method = small(starts=3, rounds=2, adapt_rate=1e-2)
    together = scores(method)
    for i in range(2):
        assert together[i].item() == pytest.approx(searched_one_by_one(method, IMAGES[i : i + 1]), rel=1e-4)


def test_scoring_leaves_the_generator_as_it_was():
    method = small(starts=2, rounds=2, adapt_rate=1e-2)
    before = {name: value.clone() for name, value in method.state_dict().items()}
    scores(method)
    assert all(torch.equal(before[name], value) for name, value in method.state_dict().items())


def test_adapting_the_generator_brings_it_nearer():
    fixed, adapted = (scores(small(starts=2, rounds=4, adapt=adapt, adapt_rate=1e-2)) for adapt in (False, True))
    assert (adapted < fixed).all()


def test_no_adaptation_is_a_rate_of_nothing():
    fixed, still = (scores(small(starts=2, rounds=3, **way)) for way in ({"adapt": False}, {"adapt_rate": 0.0}))
    assert torch.allclose(fixed, still, rtol=1e-4)


def test_more_rounds_bring_it_nearer():
    few, many = (scores(small(starts=2, rounds=rounds)) for rounds in (1, 12))
    assert (many < few).all()


def test_penalty_wants_slopes_of_one():
    method = small().eval()

    class Slope(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 3.0 * x[:, 0, 5, 7] + 4.0 * x[:, 1, 2, 3]  # of length 5 everywhere

    method.critic = Slope()
    assert method.steepness(IMAGES, -IMAGES).item() == pytest.approx((5 - 1) ** 2)


@pytest.mark.parametrize("critic_steps", [1, 3])
def test_the_critic_takes_its_steps_before_the_generator(critic_steps):
    method = small(critic_steps=critic_steps)
    optimizers = method.optimizers("train")
    method.step(IMAGES, optimizers, 0.0)
    steps = {name: optimizer.state_dict()["state"][0]["step"].item() for name, optimizer in optimizers.items()}
    assert steps == {"critic": critic_steps, "generator": 1}


@pytest.mark.parametrize("penalty", [0.0, 20.0])
def test_critic_learns_to_tell_images_from_what_a_still_generator_makes(penalty):
    method = small(learning_rate=1e-3, penalty=penalty)
    optimizers = method.optimizers("train")
    optimizers["generator"].param_groups[0]["lr"] = 0.0
    with seeded(1):
        records = [method.step(IMAGES, optimizers, 0.0) for _ in range(30)]
    assert records[-1]["gap"] > records[0]["gap"] + 1
    assert (records[-1]["penalty"] < 0.1 * records[0]["penalty"]) == (penalty > 0)


def test_learns_digits():
    task = digits.load().task(3)
    images, labels = task.test_images[:100], task.test_labels.look()[:100]
    settings = {"width": 16, "latent": 16, "batch_size": 16, "starts": 2, "rounds": 2}
    ways = [
        Detector("adgan", settings={**settings, "learning_rate": rate}, epochs=15, false_alarm_rate=None)
        for rate in (1e-9, 1e-3)
    ]
    untrained, trained = (auroc(one.fit(task.train_images).score(images), labels) for one in ways)
    assert trained > 0.85
    assert trained > untrained + 0.1
