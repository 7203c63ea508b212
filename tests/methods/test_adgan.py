import pytest
import torch
from torch.optim import Adam

from normscope.methods.adgan import ADGAN, STARTS, Settings
from normscope.training.method import Batch
from normscope.training.randomness import seeded

IMAGES = torch.rand(4, 3, 28, 28, generator=torch.Generator().manual_seed(0)) * 2 - 1
BATCH = Batch(IMAGES, IMAGES[:0])


def small(**settings: object) -> ADGAN:
    with seeded(0):
        return ADGAN(Settings(width=8, latent=10, **settings), (3, 28, 28))


def scores(method: ADGAN, images: torch.Tensor = IMAGES) -> torch.Tensor:
    with torch.inference_mode():
        return method.eval().score(images, {})


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
    with torch.device("meta"):
        method = ADGAN(Settings(), (3, 32, 32))
    (phase,) = method.phases()
    assert (phase.epochs, phase.least_steps) == (100, 10_000)
    for adam in method.optimizers("train").values():
        assert (adam.defaults["lr"], adam.defaults["betas"]) == (1e-4, (0.0, 0.9))
    assert method.generator.body[0].in_features == 256
    assert method.critic.head.in_features == 256 * 4 * 4
    assert isinstance(method.critic.body[1], torch.nn.BatchNorm2d)
    assert (method.critic.body[0].kernel_size, method.critic.head.out_features) == ((3, 3), 1)
    s = method.settings
    assert (s.critic_steps, s.penalty, s.starts, s.rounds, s.search_rate, s.adapt_rate) == (2, 20, 8, 5, 0.25, 5e-5)


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
    few, many = (scores(small(starts=2, rounds=rounds)) for rounds in (1, 6))
    assert (many < few).all()


def test_penalty_wants_slopes_of_one():
    method = small().eval()

    points = []

    class Slope(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            points.append(x.detach())
            return 3.0 * x[:, 0, 5, 7] + 4.0 * x[:, 1, 2, 3]  # of length 5 everywhere

    method.critic = Slope()
    assert method.steepness(IMAGES, -IMAGES).item() == pytest.approx((5 - 1) ** 2)
    share = (points[0] / IMAGES).flatten(1)  # from image to image another place between the two
    assert torch.allclose(share, share[:, :1].expand_as(share), atol=1e-3)
    assert -1 < share.min() < share.max() - 0.1 < 1


def test_the_critic_takes_its_steps_before_the_generator():
    method = small(critic_steps=3)
    optimizers = method.optimizers("train")
    method.step(BATCH, optimizers, 0.0)
    steps = {name: optimizer.state_dict()["state"][0]["step"].item() for name, optimizer in optimizers.items()}
    assert steps == {"critic": 3, "generator": 1}


def test_the_generator_wants_the_critic_to_rate_what_it_makes_highly():
    method = small(critic_steps=1, learning_rate=0.0)
    with seeded(1):
        record = method.step(Batch(IMAGES, IMAGES[:0]), method.optimizers("train"), 0.0)
    with seeded(1):
        torch.randn(4, 10), torch.rand(4, 1, 1, 1)  # for the critic
        made = method.generator(torch.randn(4, 10))
    assert record["loss"].item() == pytest.approx(-method.critic(made).mean().item(), rel=1e-4)


@pytest.mark.parametrize("penalty", [0.0, 20.0])
def test_critic_learns_to_tell_images_from_what_a_still_generator_makes(penalty):
    method = small(learning_rate=1e-3, penalty=penalty)
    optimizers = method.optimizers("train")
    optimizers["generator"].param_groups[0]["lr"] = 0.0
    with seeded(1):
        records = [method.step(BATCH, optimizers, 0.0) for _ in range(30)]
    assert records[-1]["gap"] > records[0]["gap"] + 1
    assert (records[-1]["penalty"] < 0.1 * records[0]["penalty"]) == (penalty > 0)
