import numpy as np
import pytest
import torch
from scipy.special import digamma, psi

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods.geotrans import (
    GeoTrans,
    Settings,
    fit_dirichlet,
    inverse_digamma,
    reflected,
    some,
    sources,
    transformed,
)
from normscope.training.randomness import seeded

SHAPE = (3, 28, 28)


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def small(**settings):
    with seeded(0):
        return GeoTrans(Settings(width=16, **{"transforms": 4, **settings}), SHAPE).eval()


def test_the_published_settings():
    s = Settings()
    assert (s.transforms, s.width, s.depth, s.batch_size) == (72, 64, 10, 128)
    with torch.device("meta"):
        method = GeoTrans(s, (3, 32, 32))
    (phase,) = method.phases()
    assert phase.epochs == 3 * 72
    (adam,) = method.optimizers("train").values()
    assert (adam.defaults["lr"], adam.defaults["weight_decay"]) == (1e-3, 5e-4)


@pytest.mark.parametrize("transforms", [72, 36, 8, 4])
def test_transforms_are_all_different_and_the_first_is_none(transforms):
    maps = sources(32, transforms)
    assert maps.shape == (transforms, 32 * 32)
    assert len(maps.unique(dim=0)) == transforms
    assert torch.equal(maps[0], torch.arange(32 * 32))


def test_a_shift_reflects_at_the_edge():
    assert reflected(8, 2).tolist() == [1, 0, 0, 1, 2, 3, 4, 5]
    assert reflected(8, -2).tolist() == [2, 3, 4, 5, 6, 7, 7, 6]


def test_flip_then_shift_by_a_quarter_then_rotation():
    x = images(1)
    expected = np.rot90(np.roll(x[0, 0].numpy()[:, ::-1], 7, axis=1), 3)  # roll and reflection agree inside
    found = [transformed(x, source[None])[0, 0].numpy() for source in sources(28, 72)]
    inside = [np.array_equal(image[7:], expected[7:]) for image in found]
    assert sum(inside) == 1
    assert inside.index(True) >= 36  # the second half is flipped


def test_each_image_of_a_batch_has_its_own_transform():
    x, maps = images(4), sources(28, 4)
    moved = transformed(x, maps[[0, 1, 2, 3]])
    for turns in range(4):
        assert torch.equal(moved[turns], torch.rot90(x[turns], turns, (1, 2)))


def test_inverse_digamma():
    x = torch.tensor([1e-3, 0.05, 0.5, 1.0, 7.0, 500.0], dtype=torch.float64)
    torch.testing.assert_close(inverse_digamma(x.digamma()), x, rtol=1e-8, atol=0)


def test_the_dirichlet_that_samples_come_from_is_found():
    truth = np.array([[0.3, 2.0, 5.0], [20.0, 0.5, 1.0]])
    rng = np.random.default_rng(0)
    p = torch.from_numpy(np.stack([rng.dirichlet(alpha, 200_000) for alpha in truth]))
    found = fit_dirichlet(p.mean(1), p.log().mean(1)).numpy()
    assert found == pytest.approx(truth, rel=0.02)  # several standard errors, which are below 0.5 %


def test_the_dirichlet_is_the_most_likely_one():
    """Where the gradient of the likelihood is nought: E log p_k = ψ(α_k) − ψ(Σ α)."""
    truth = np.array([[0.05, 3.0, 0.7, 12.0]])
    mean, mean_log = truth / truth.sum(), digamma(truth) - psi(truth.sum())
    found = fit_dirichlet(torch.from_numpy(mean), torch.from_numpy(mean_log)).numpy()
    assert found == pytest.approx(truth, rel=1e-5)


def test_equal_training_images_still_give_a_finite_fit():
    p = torch.tensor([[0.2, 0.8 - 1e-300, 1e-300]], dtype=torch.float64)
    assert fit_dirichlet(p, p.log()).isfinite().all()


def test_the_score_by_hand():
    method = small()
    x = images(6)
    with torch.no_grad():
        method.finish([x[:4], x[4:]])
        turned = [method.network(torch.rot90(x, turns, (2, 3))).double().softmax(1) for turns in range(4)]
        alphas = [fit_dirichlet(p.mean(0)[None], p.log().mean(0)[None])[0] for p in turned]
        by_hand = -sum(((alpha - 1) * p.log()).sum(1) for alpha, p in zip(alphas, turned, strict=True)) / 4
        torch.testing.assert_close(method.score(x).double(), by_hand, rtol=1e-3, atol=1e-3 * by_hand.abs().max().item())


def test_the_simple_score_is_the_softmax_of_the_right_answer():
    method = small(evidence="softmax")
    x = images(3)
    with torch.no_grad():
        method.finish([x])
        p = [method.network(torch.rot90(x, turns, (2, 3))).softmax(1)[:, turns] for turns in range(4)]
        torch.testing.assert_close(method.score(x), -sum(p) / 4)
    assert not method.memory


def test_references_are_so_many_drawn_at_random():
    batches = [torch.arange(0.0, 10)[:, None], torch.arange(10.0, 15)[:, None]]
    with seeded(0):
        kept = torch.cat(list(some(batches, 6)))[:, 0]
        others = torch.cat(list(some(batches, 6)))[:, 0]
    assert len(kept.unique()) == len(others.unique()) == 6
    assert not torch.equal(kept, others)
    assert torch.equal(torch.cat(list(some(batches, "all"))), torch.cat(batches))
    assert len(torch.cat(list(some(batches, 99)))) == 15


def test_bad_settings_are_refused():
    with pytest.raises(SettingError, match="references is 0"):
        GeoTrans(Settings(references=0), SHAPE)
    with pytest.raises(SettingError, match="depth is 12"):
        GeoTrans(Settings(depth=12), SHAPE)


@pytest.mark.parametrize("evidence", ["dirichlet", "softmax"])
def test_learns_the_digit_four(evidence):
    task = digits.load().task(4)
    settings = {"width": 16, "transforms": 4, "batch_size": 16, "evidence": evidence}
    labels, seen = task.test_labels.look()[::3], []
    for epochs, rate in ((1, 1e-9), (8, 1e-3)):
        one = Detector("geotrans", settings={**settings, "learning_rate": rate}, epochs=epochs, false_alarm_rate=None)
        seen.append(auroc(one.fit(task.train_images[:100]).score(task.test_images[::3]), labels))
    untrained, trained = seen
    assert trained > 0.9
    assert 1 - trained < 0.5 * (1 - untrained)
