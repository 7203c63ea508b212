import math
from copy import deepcopy
from itertools import cycle

import numpy as np
import pytest
import torch

from normscope import Detector
from normscope.errors import CollapseError, NotFittedError, SettingError
from normscope.methods.paper_base import Base, Settings
from normscope.networks.amdim import PRESETS
from normscope.objective import entropy, information
from normscope.objective.cross_entropy import norm_margin
from normscope.objective.entropy import gaussian, gaussian_sum, l2, laplace, laplace_sum
from normscope.objective.information import infonce
from normscope.scoring.norm import norm_ratio
from normscope.scoring.pair import fingerprint
from normscope.scoring.rotated import rotated_surprisal
from normscope.scoring.surprisal import gaussians
from normscope.settings import build
from normscope.training import paper
from normscope.training.method import Batch, part
from normscope.training.randomness import seeded
from normscope.views.augment import Recipe, random_view

SHAPE = (3, 28, 28)


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


class Batches(list):
    """All images in one batch."""

    def __init__(self, encoded):
        super().__init__([encoded])

    def __len__(self):
        return len(self[0])

    def subset(self, indices):
        return Batches(self[0][indices])


def batch(n, seed=0):
    return Batch(images(n, seed), images(0))


def tiny(**settings):
    with seeded(0):
        return Base(build(Settings, {"preset": "paper", "encoder": "tiny", **settings}), SHAPE)


def algorithm_one(z, c1, norm):
    """L_nce and L_entropy of the paper's Algorithm 1; z holds the codes of view t, then t', of each image in turn."""
    size, c2 = len(z), 20.0
    s = [[c2 * torch.tanh((z[i] @ z[j]) / (c1 * c2)) for j in range(size)] for i in range(size)]
    s_max = max(max(row) for row in s)
    shifted = [[value - s_max for value in row] for row in s]

    def loss(i, j):
        return -torch.log(shifted[i][j].exp() / sum(shifted[i][k].exp() for k in range(size) if k != i))

    nce = sum(loss(2 * k, 2 * k + 1) + loss(2 * k + 1, 2 * k) for k in range(size // 2)) / size
    return nce, sum(norm(code) for code in z) / size


NORMS = {
    laplace_sum: lambda z: z.abs().sum(),
    laplace: lambda z: z.abs().sum() / len(z),
    gaussian_sum: lambda z: (z * z).sum(),
    l2: lambda z: (z * z).sum().sqrt(),
}


@pytest.mark.parametrize(
    ("bound", "clip_scale", "c1"),
    [
        (laplace_sum, "size", 128.0),
        (laplace, "root", 128**0.5),
        (gaussian_sum, "size", 128.0),
        (l2, "root", 128**0.5),
    ],
)
def test_a_step_is_algorithm_one(monkeypatch, bound, clip_scale, c1):
    n, beta = 3, 0.7
    views = [images(n, seed=1), images(n, seed=2)]
    given = iter(views)
    monkeypatch.setattr(paper, "random_view", lambda x, recipe: next(given))
    method = tiny(beta=beta, entropy=bound, clip_scale=clip_scale, learning_rate=0.01)
    literal = deepcopy(method)
    record = method.step(batch(n), method.optimizers("train"), progress=0.0)

    z = [literal.encoder(view[k : k + 1]).code[0] for k in range(n) for view in views]
    nce, spread = algorithm_one(z, c1, NORMS[bound])
    loss = nce + beta * spread
    # Information is the bound itself, I ≥ log(2N − 1) − L_nce: the loss differs by a constant from the paper's.
    constant = torch.tensor(2.0 * n - 1).log()
    assert record["loss"].item() == pytest.approx((loss - constant).item(), rel=1e-4)
    assert record["information"].item() == pytest.approx((constant - nce).item(), abs=1e-5)
    assert record["entropy"].item() == pytest.approx(spread.item(), rel=1e-4)

    loss.backward()
    torch.optim.Adam(literal.parameters(), 0.01).step()
    # The first step of Adam is the sign of the gradient, which rounding decides where there is hardly any.
    for (name, one), other in zip(method.named_parameters(), literal.parameters(), strict=True):
        firm = other.grad.abs() > 1e-3 * other.grad.abs().max()
        torch.testing.assert_close(one[firm], other[firm], rtol=1e-3, atol=1e-4, msg=name)


def test_both_views_are_drawn_anew_from_the_recipe():
    method = tiny(smallest_area=0.5, flip=0.1, colour=0.2, grey=0.3, blur=0.4)
    recipe = Recipe(smallest_area=0.5, flip=0.1, colour=0.2, grey=0.3, blur=0.4)
    seen, n = [], 4
    method.encoder.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with seeded(1):
        method.step(batch(n), method.optimizers("train"), 0.0)
    with seeded(1):
        views = [random_view(images(n), recipe) for _ in range(2)]
    assert not torch.equal(*views)
    assert torch.equal(seen[0], torch.cat(views))


def test_beta_rises_with_progress():
    method = tiny(beta=6.0, beta_ramp=0.5)
    betas = [method.step(batch(4), method.optimizers("train"), progress)["beta"] for progress in (0.0, 0.25, 0.75)]
    assert betas == [0, 3, 6]


def test_the_score_is_algorithm_two_turned():
    method, x = tiny().eval(), images(5)
    with torch.no_grad():
        z = method.encoder(x).code
        literal = [-20 * torch.tanh(sum(a * a for a in code) / (128 * 20)).item() for code in z]
        assert method.score(x, {}).tolist() == pytest.approx(literal, rel=1e-5)


def pair_score(method, image, pairs):
    """Minus NormalScore_rand (one pair of views) or NormalScore_mc (the sum over H of them) of one image."""
    with seeded(method.settings.score_seed, fingerprint(image[0])):
        views = random_view(image.repeat(2 * pairs, 1, 1, 1), method.settings)
    z = method.encoder(views).code
    return -sum(20 * torch.tanh(z[h] @ z[pairs + h] / (128 * 20)) for h in range(pairs)).item()


@pytest.mark.parametrize(("score", "pairs"), [("rand", 1), ("mc", 7)])
def test_scores_by_pairs_of_views_sum_their_clipped_similarity(score, pairs):
    method, x = tiny(score=score, score_pairs=7).eval(), images(3)
    with torch.no_grad():
        expected = [pair_score(method, image[None], pairs) for image in x]
        before = torch.get_rng_state()
        assert method.score(x, {}).tolist() == pytest.approx(expected, rel=1e-5)
        assert torch.equal(torch.get_rng_state(), before)


def test_the_views_of_a_score_follow_from_its_seed_alone():
    x = images(3)
    with torch.no_grad():
        one = tiny(score="rand").eval().score(x, {})
        assert torch.equal(tiny(score="rand").eval().score(x, {}), one)
        assert not torch.allclose(tiny(score="rand", score_seed=1).eval().score(x, {}), one)
        torch.testing.assert_close(tiny(score="rand").eval().score(x[1:2], {}), one[1:2])


def test_the_preset_paper_is_the_paper():
    s = build(Settings, {"preset": "paper"})
    assert (s.beta, s.beta_ramp, s.learning_rate, s.epochs) == (20, 0, 2e-4, 400)
    assert (s.information, s.entropy, s.score, s.score_pairs) == (infonce, laplace, "ori", 100)
    assert (s.output_norm, s.clip_scale) == (False, "size")
    small = PRESETS[s.encoder]
    assert (small.native, small.width, small.code, small.depth) == (32, 128, 1024, 10)
    with torch.device("meta"):
        method = Base(s, (3, 32, 32))
    assert method.scale == 1024
    (phase,) = method.phases()
    assert (phase.epochs, phase.rate(0.0), phase.rate(0.9), phase.least_steps) == (400, 1, 1, 1)
    (adam,) = method.optimizers("train").values()
    assert type(adam) is torch.optim.Adam
    assert (adam.defaults["lr"], adam.defaults["weight_decay"]) == (2e-4, 0)
    assert sum(len(group["params"]) for group in adam.param_groups) == len(list(method.encoder.parameters()))


@pytest.mark.parametrize(("i", "h"), list(zip(cycle(information.__all__), entropy.__all__)))
def test_every_information_and_every_entropy_can_be_trained(i, h):
    method = tiny(information=getattr(information, i), entropy=getattr(entropy, h), output_norm=True)
    before = [parameter.clone() for parameter in method.parameters()]
    optimizers = method.optimizers("train")
    for step in range(2):
        with seeded(step):
            record = method.step(batch(6, seed=step), optimizers, step / 2)
        assert all(value.isfinite() for value in record.values()), record
    assert all(parameter.isfinite().all() for parameter in method.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, method.parameters(), strict=True))


def strokes(n):
    """Grey images [n, 28, 28] of one bright bar each, so that there is something to tell images apart by."""
    x = np.zeros((n, 28, 28), np.uint8)
    for k in range(n):
        x[k, k % 20 : k % 20 + 6, (3 * k) % 17 : (3 * k) % 17 + 10] = 255 - 2 * k
    return x


EASY = {
    "preset": "paper",
    "encoder": "tiny",
    "entropy": "laplace_sum",
    "clip_scale": "root",
    "learning_rate": 1e-3,
    "batch_size": 8,
    "smallest_area": 0.9,
    "flip": 0.0,
    "colour": 0.1,
}


def test_a_collapse_is_refused_with_advice_unless_it_is_allowed(tmp_path):
    detector = Detector("base", settings=EASY | {"beta": 20.0}, epochs=6, false_alarm_rate=None)
    advice = r"^collapsed: .*smaller beta, beta=auto or beta_ramp=0\.5; or allow a collapse"
    with pytest.raises(CollapseError, match=advice):
        detector.fit(strokes(32), checkpoint=tmp_path / "checkpoint")
    with pytest.raises(NotFittedError):
        detector.card  # noqa: B018
    detector.fit(strokes(32), checkpoint=tmp_path / "checkpoint", resume=True, allow_collapse=True)
    assert detector.card["training"]["health"].startswith("collapsed")


def test_without_the_entropy_term_the_same_does_not_collapse():
    detector = Detector("base", settings=EASY | {"beta": 0.0}, epochs=6, false_alarm_rate=None).fit(strokes(32))
    assert detector.card["training"]["health"] == "ok"


def laptop(**settings):
    with seeded(0):
        return Base(build(Settings, {"width": 16, "code": 256, **settings}), SHAPE)


def test_a_preset_is_the_default_for_what_is_not_given():
    given = build(Settings, {"preset": "paper", "beta": 3.0})
    assert (given.beta, given.gamma, given.encoder) == (3.0, 0.0, "small")
    assert build(Settings, {}) == Settings()
    assert (Settings().preset, Settings().gamma > 0, Settings().rectify) == ("laptop", True, True)


def test_the_third_term_keeps_shifted_views_short_in_units_of_the_root_of_c1():
    method, x = laptop(beta_ramp=0.5, gamma=3.0), batch(6)
    with seeded(1):
        every, n = paper.views(method.settings, x.normal)
    copied = deepcopy(method)
    with seeded(1):
        record = method.step(x, method.optimizers("train"), 0.25)
    z = copied.encoder(every).code
    assert (len(every), n) == (24, 12)
    assert (z >= 0).all()
    unit = 256**0.25
    apart = norm_margin(z[:n] / unit, z[n:] / unit)
    assert record["separation"].item() == pytest.approx(apart.item(), rel=1e-4)
    nce, spread_ = algorithm_one(z[:n].view(2, 6, -1).transpose(0, 1).flatten(0, 1), 16.0, NORMS[laplace])
    expected = nce + 0.5 * (5.0 * spread_ - 3.0 * apart)
    assert record["loss"].item() == pytest.approx((expected - math.log(11)).item(), rel=1e-4)


def test_without_gamma_there_are_no_shifted_views():
    method = laptop(gamma=0.0)
    assert len(paper.views(method.settings, images(5))[0]) == 10
    assert "separation" not in method.step(batch(5), method.optimizers("train"), 0.0)


def test_the_ratio_sets_the_norm_against_those_of_the_rotations():
    method, x = laptop().eval(), images(4)
    with torch.no_grad():
        lengths = [
            [method.code(torch.rot90(one[None], turns, (2, 3))).norm().item() for turns in range(4)] for one in x
        ]
        logs = np.log(np.array(lengths) + 0.1)
        expected = -(logs[:, 0] - 0.5 * logs[:, 1:].mean(1))
        assert method.score(x, {}).tolist() == pytest.approx(expected, rel=1e-4)
        by_norm = laptop(score="ori").eval().score(x, {})
        assert by_norm.tolist() == pytest.approx([-20 * np.tanh(a[0] ** 2 / 16 / 20) for a in lengths], rel=1e-4)


def test_surprisal_of_the_features_comes_on_top_of_the_ratio():
    method, x = laptop(score="surprisal").eval(), images(30)
    with torch.no_grad():
        reference = method.finish([x[:20], x[20:]])
        features, norms = method.represent(x)
        ratio = laptop().eval().score(x, {})
        assert ratio.tolist() == pytest.approx(norm_ratio(norms).tolist(), rel=1e-4)
        standardised = (ratio - ratio.mean()) / ratio.std()
        expected = rotated_surprisal(features, part(reference, "features")) + 0.5 * standardised
        assert method.score(x, reference).tolist() == pytest.approx(expected.tolist(), rel=1e-3, abs=1e-3)
        assert method.score(x[:1], reference).item() == pytest.approx(expected[0].item(), rel=1e-3, abs=1e-3)


def test_surprisal_needs_the_stages_of_a_resnet():
    with pytest.raises(SettingError, match="score=surprisal needs encoder=resnet, not tiny; change one of them"):
        tiny(score="surprisal")


def test_a_pretrained_encoder_has_half_a_say_beside_the_surprisal_of_features():
    alone, both = laptop(score="surprisal").eval(), laptop(score="surprisal", pretrained="efficientnet-lite0").eval()
    both.load_pretrained()
    both.encoder.load_state_dict(alone.encoder.state_dict())
    x = images(30)
    with torch.no_grad():
        encoded = both.encode(x)
        reference = both.finish(Batches(encoded))
        learnt = alone.score(x, alone.finish(Batches(x)))
        half = 2 * both.score(encoded, reference) - learnt
        assert both.images(encoded).equal(x)
        assert both.code(encoded).allclose(alone.code(x))
        known = part(reference, "frozen")
        seen = gaussians(encoded[:, math.prod(SHAPE) :], known, 1280)
    expected = ((seen - known["mean"]) / known["deviation"]).mean(1)
    assert half.tolist() == pytest.approx(expected.tolist(), rel=1e-3, abs=1e-3)


def test_a_norm_has_no_scale_to_weigh_an_encoder_against():
    with pytest.raises(SettingError, match="pretrained needs score=surprisal, not ratio; change one of them"):
        laptop(pretrained="efficientnet-lite0")


@pytest.mark.parametrize("settings", [{"score": "surprisal"}, {}, {"preset": "paper", "encoder": "tiny"}])
def test_where_an_image_is_odd(settings):
    x = images(60) / 4
    x[0, :, 8:20, 8:20] = 1.0
    method = Base(build(Settings, {"width": 16} | settings), SHAPE).eval()
    with torch.no_grad():
        heat = method.explain(x, method.finish(Batches(x[1:])))
    side = heat.shape[-1]
    inside = heat[:, side // 3 : side // 3 * 2 + 1, side // 3 : side // 3 * 2 + 1].amax((1, 2))
    assert inside[0] > heat[1:].amax()


def test_beta_can_be_given_free_of_the_size_of_the_code():
    def beta(**settings):
        method = laptop(**settings)
        return method.step(batch(4), method.optimizers("train"), 0.9)["beta"].item()

    assert beta(beta=8.0) == 8.0
    assert beta(beta=8.0, beta_unit="code") == pytest.approx(4.0)  # √(256 / 1024)


def test_code_size_and_rectified_codes_of_the_papers_encoder():
    method = tiny(code=64, rectify=True)
    assert method.scale == 64
    code = method.code(images(3))
    assert code.shape == (3, 64)
    assert (code >= 0).all()
    assert (tiny().code(images(3)) < 0).any()


def test_views_of_amdim_share_a_flip():
    method = laptop(views="amdim", gamma=0.0)
    record = method.step(batch(6), method.optimizers("train"), 0.5)
    assert record["loss"].isfinite()


def test_a_setting_under_which_a_collapse_is_best_is_told_with_the_nearest_that_is_not():
    assert laptop().advice() is None
    line = tiny(entropy=gaussian).advice()
    assert "a collapsed code is the best that the objective has; beta=0.625 has another" in line
    assert tiny(beta="auto").advice() is None
    assert "at any beta" not in tiny(entropy=laplace_sum).advice()
