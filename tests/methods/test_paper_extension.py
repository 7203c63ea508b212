from copy import deepcopy
from itertools import cycle

import pytest
import torch

from normscope.methods.paper_extension import Extension, Settings
from normscope.networks.amdim import PRESETS
from normscope.objective import entropy, information
from normscope.objective.entropy import l2, laplace, laplace_sum
from normscope.objective.information import infonce
from normscope.settings import build
from normscope.training import paper
from normscope.training.method import Batch
from normscope.training.randomness import seeded

SHAPE = (3, 28, 28)
C2 = 20.0


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def batch(n, seed=0):
    return Batch(images(n, seed), images(0))


def tiny(**settings):
    with seeded(0):
        return Extension(build(Settings, {"preset": "paper", "encoder": "tiny", **settings}), SHAPE)


def encoded(method, views):
    """Codes g [d] and maps l, each a list of 25 locations [d]; of view t, then of t', of each image in turn."""
    g, maps = [], []
    for k in range(len(views[0])):
        for view in views:
            code, local = method.networks["encoder"](view[k : k + 1])
            projected = method.networks["projector"](local)[0]
            g.append(code[0])
            maps.append([projected[:, row, column] for row in range(5) for column in range(5)])
    return g, maps


def sim(one, other, c1):
    """Algorithm 3: the sum over all pairs of locations, then the clip."""
    return C2 * torch.tanh(sum(a @ b for a in one for b in other) / (c1 * C2))


def nce(rows, first, second, c1):
    """L_nce of Algorithm 3 over these rows i of 2N, each with the other view of its image as the positive."""
    s = {(i, j): sim(first[i], second[j], c1) for i in rows for j in range(len(second))}
    s_max = max(s.values())
    losses = []
    for i in rows:
        others = sum((s[i, k] - s_max).exp() for k in range(len(second)) if k != i)
        losses.append(-torch.log((s[i, i ^ 1] - s_max).exp() / others))
    return sum(losses) / len(losses)


def sum_loss(g, maps, c1):
    """L_gvg + L_gvl of Algorithm 4."""
    codes, size = [[code] for code in g], len(g)
    one, two = range(0, size, 2), range(1, size, 2)
    gvg = nce(range(size), codes, codes, c1)
    gvl = 0.5 * (nce(two, codes, maps, c1) + nce(one, codes, maps, c1))
    return gvg + gvl, 2 * torch.tensor(size - 1.0).log()


def each_loss(g, maps, c1):
    """L_gvg of Algorithm 4, and in place of L_gvl AMDIM's: a location against those of all other images."""
    codes, size = [[code] for code in g], len(g)
    losses = []
    for i in range(size):
        negative = [sim([g[i]], [place], c1).exp() for j in range(size) if j // 2 != i // 2 for place in maps[j]]
        for place in maps[i ^ 1]:
            positive = sim([g[i]], [place], c1).exp()
            losses.append(-torch.log(positive / (positive + sum(negative))))
    candidates = torch.tensor(1.0 + 25 * (size - 2))
    return nce(range(size), codes, codes, c1) + sum(losses) / len(losses), torch.tensor(
        size - 1.0
    ).log() + candidates.log()


NORMS = {
    laplace_sum: lambda z: z.abs().sum(),
    laplace: lambda z: z.abs().sum() / len(z),
    l2: lambda z: (z * z).sum().sqrt(),
}


@pytest.mark.parametrize(
    ("local", "literal_loss", "bound"),
    [("sum", sum_loss, laplace_sum), ("each", each_loss, laplace), ("sum", sum_loss, l2)],
)
def test_a_step_is_algorithm_four(monkeypatch, local, literal_loss, bound):
    n, beta, c1 = 3, 0.7, 128**0.5
    views = [images(n, seed=1), images(n, seed=2)]
    given = iter(views)
    monkeypatch.setattr(paper, "random_view", lambda x, recipe: next(given))
    method = tiny(beta=beta, entropy=bound, local=local, clip_scale="root", learning_rate=0.01)
    literal = deepcopy(method)
    record = method.step(batch(n), method.optimizers("train"), progress=0.0)

    g, maps = encoded(literal, views)
    contrasted, constant = literal_loss(g, maps, c1)
    # The norm of a map is the mean over its locations: the paper does not say, and beta = 20 asks for one scale.
    norm = NORMS[bound]
    spread = sum(norm(code) + sum(map(norm, places)) / 25 for code, places in zip(g, maps, strict=True)) / (2 * n)
    loss = contrasted + beta * spread
    # Information is the bound itself: log of the number of candidates minus L_nce, for each of the two critics.
    assert record["loss"].item() == pytest.approx((loss - constant).item(), rel=1e-4)
    assert record["information"].item() == pytest.approx((constant - contrasted).item(), abs=1e-5)
    assert record["entropy"].item() == pytest.approx(spread.item(), rel=1e-4)

    loss.backward()
    torch.optim.Adam(literal.networks.parameters(), 0.01).step()
    # The first step of Adam is the sign of the gradient, which rounding decides where there is hardly any.
    for (name, one), other in zip(method.named_parameters(), literal.parameters(), strict=True):
        firm = other.grad.abs() > 1e-3 * other.grad.abs().max()
        torch.testing.assert_close(one[firm], other[firm], rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize(("clip_scale", "c1"), [("size", 128.0), ("root", 128**0.5)])
def test_the_score_is_algorithm_five_turned(clip_scale, c1):
    method, x = tiny(clip_scale=clip_scale).eval(), images(4)
    with torch.no_grad():
        literal = []
        for g, places in zip(*encoded(method, [x]), strict=True):
            similarity = sum(a * a for a in g) + sum(g @ place for place in places)
            literal.append(-C2 * torch.tanh(similarity / (c1 * C2)).item())
        assert method.score(x, {}).tolist() == pytest.approx(literal, rel=1e-4)


@pytest.mark.parametrize(("local", "size"), [("sum", 28), ("each", 50)])
def test_an_explanation_is_a_finite_map_of_the_locations(local, size):
    method = tiny(local=local).eval()
    x = torch.rand(20, 3, size, size, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.no_grad():
        heat = method.explain(x[:2], method.finish([x]))
    assert heat.shape == (2, 5, 5)
    assert heat.isfinite().all()
    assert heat.std() > 0


def test_an_explanation_is_high_where_the_image_is_odd():
    method = tiny().eval()
    x = 0.2 * torch.rand(60, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    odd = x[:1].clone()
    odd[..., 24:, :8] = -1
    with torch.no_grad():
        reference = method.finish([x[1:]])
        (heat,) = method.explain(odd, reference)
        normal = method.explain(x[:1], reference)
    assert heat[4, 0] > 2 * heat[0, 4]
    assert heat.max() > 1 > normal.max()


def test_the_preset_paper_is_the_paper():
    s = build(Settings, {"preset": "paper"})
    assert (s.beta, s.beta_ramp, s.learning_rate, s.epochs) == (20, 0, 2e-4, 400)
    assert (s.information, s.entropy, s.local) == (infonce, laplace, "sum")
    assert (s.output_norm, s.clip_scale) == (False, "size")
    small = PRESETS[s.encoder]
    assert (small.native, small.width, small.code, small.depth) == (32, 128, 1024, 10)
    with torch.device("meta"):
        method = Extension(s, (3, 32, 32))
    assert method.scale == 1024
    (phase,) = method.phases()
    assert (phase.epochs, phase.rate(0.0), phase.rate(0.9), phase.least_steps) == (400, 1, 1, 1)
    (adam,) = method.optimizers("train").values()
    assert type(adam) is torch.optim.Adam
    assert (adam.defaults["lr"], adam.defaults["weight_decay"]) == (2e-4, 0)
    assert sum(len(group["params"]) for group in adam.param_groups) == len(list(method.parameters()))


@pytest.mark.parametrize(
    ("i", "h", "local"), list(zip(cycle(information.__all__), entropy.__all__, cycle(["sum", "each", "each"])))
)
def test_every_information_and_every_entropy_take_codes_and_locations(i, h, local):
    parts = {"information": getattr(information, i), "entropy": getattr(entropy, h)}
    method = tiny(**parts, local=local, output_norm=True)
    optimizers = method.optimizers("train")
    for step in range(2):
        with seeded(step):
            record = method.step(batch(4, seed=step), optimizers, step / 2)
        assert all(value.isfinite() for value in record.values()), record
    assert all(parameter.isfinite().all() for parameter in method.parameters())


def test_each_critic_has_a_moving_average_of_its_own():
    method = tiny(information=information.donsker_varadhan)
    method.step(batch(4), method.optimizers("train"), 0.0)
    first, second = method.state_dict()["trade_off.log_averages"]
    assert first.isfinite()
    assert second.isfinite()
    assert first != second


def laptop(**settings):
    with seeded(0):
        return Extension(build(Settings, {"width": 16, "code": 256, **settings}), SHAPE)


def test_the_default_has_rectified_codes_and_maps_and_a_third_term():
    method = laptop()
    g, local = method.eval().represent(images(3))
    assert (g.shape, local.shape[:2]) == ((3, 256), (3, 256))
    assert (g >= 0).all()
    assert (local >= 0).all()
    record = method.train().step(batch(4), method.optimizers("train"), 0.5)
    assert record["separation"] < 0
    assert "separation" not in laptop(gamma=0.0).step(batch(4), method.optimizers("train"), 0.5)


def test_entropy_is_of_the_code_alone_or_of_the_locations_too():
    def entropy(of):
        method = laptop(entropy_of=of, gamma=0.0)
        with seeded(2):
            return method.step(batch(4), method.optimizers("train"), 0.5)["entropy"].item()

    assert 0 < entropy("code") < entropy("both")


def test_the_ratio_is_of_code_and_map():
    method, x = laptop().eval(), images(3)
    with torch.no_grad():
        strengths = []
        for turns in range(4):
            g, local = method.represent(torch.rot90(x, turns, (2, 3)))
            strengths.append((g * g).sum(1) + (g[:, :, None, None] * local).sum((1, 2, 3)))
        logs = (torch.stack(strengths, 1).sqrt() + 0.1).log()
        expected = -(logs[:, 0] - 0.5 * logs[:, 1:].mean(1))
        torch.testing.assert_close(method.score(x, {}), expected, rtol=1e-4, atol=1e-5)
