import pytest
import torch

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.methods import arnet
from normscope.methods.arnet import ARNet, Settings, erasures, halving
from normscope.training.randomness import seeded

SHAPE = (3, 28, 28)


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def small(**settings):
    with seeded(0):
        return ARNet(Settings(width=8, **settings), SHAPE)


def given(method):
    """What the network is given in a step."""
    seen = []
    method.network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    return seen


def test_the_rate_is_halved_after_every_tenth():
    assert [halving(progress) for progress in (0.0, 0.099, 0.1, 0.55, 0.99)] == [1, 1, 0.5, 0.5**5, 0.5**9]
    (phase,) = small().phases()
    assert phase.epochs == 125
    (sgd,) = small().optimizers("train").values()
    assert (sgd.defaults["lr"], sgd.defaults["momentum"], sgd.defaults["weight_decay"]) == (0.1, 0, 0)


def test_erasing_takes_the_colour_and_the_orientation():
    x = images(2)
    erased = erasures(x)
    assert [e.shape for e in erased] == [(2, 1, 28, 28)] * 4
    for turns in range(4):
        torch.testing.assert_close(erased[turns], torch.rot90((x[:, :1] + x[:, 1:2] + x[:, 2:]) / 3, turns, (2, 3)))


@pytest.mark.parametrize("flip", [0.0, 1.0])
def test_a_step_restores_the_upright_original(flip):
    method, x = small(flip=flip), images(16)
    seen = given(method)
    outputs = []
    method.network.register_forward_hook(lambda module, inputs, output: outputs.append(output.detach()))
    with seeded(0):
        record = method.step(x, method.optimizers("train"), 0.0)
    target = x.flip(3) if flip else x
    assert record["loss"].item() == pytest.approx((outputs[0] - target).square().mean().item(), rel=1e-5)
    turns = [
        next(t for t, erased in enumerate(erasures(target)) if torch.allclose(erased[i], seen[0][i])) for i in range(16)
    ]
    assert set(turns) == {0, 1, 2, 3}


def test_half_of_the_images_are_mirrored():
    method, x = small(), images(32)
    seen = given(method)
    with seeded(1):
        method.step(x, method.optimizers("train"), 0.0)
    upright = [any(torch.allclose(erased[i], seen[0][i]) for erased in erasures(x)) for i in range(32)]
    assert 6 < sum(upright) < 26


def test_the_score_is_the_error_relative_to_that_of_training_images():
    method = small().eval()
    train, x = images(6, seed=1), images(4)

    def error(some):
        return torch.stack([(method.network(e) - some).abs().mean((1, 2, 3)) for e in arnet.erasures(some)], 1)

    with torch.no_grad():
        method.finish([train[:4], train[4:]])
        torch.testing.assert_close(method.memory["usual"], error(train).mean(0))
        torch.testing.assert_close(method.score(x), (error(x) / error(train).mean(0)).mean(1))
        assert method.score(train).mean().item() == pytest.approx(1, abs=1e-5)
        torch.testing.assert_close(method.explain(x).mean((1, 2)), method.score(x))


@pytest.mark.parametrize(
    ("settings", "told"), [({"flip": 1.5}, "flip is 1.5"), ({"flip": -0.1}, "flip is -0.1"), ({"batch_size": 1}, "2")]
)
def test_bad_settings_are_refused(settings, told):
    with pytest.raises(SettingError, match=told):
        ARNet(Settings(**settings), SHAPE)


def test_learns_the_digit_four():
    task = digits.load().task(4)
    labels, seen = task.test_labels.look()[::4], []
    for epochs, rate in ((1, 1e-9), (15, 0.1)):
        settings = {"width": 8, "flip": 0.0, "batch_size": 16, "learning_rate": rate}
        one = Detector("arnet", settings=settings, epochs=epochs, false_alarm_rate=None)
        seen.append(auroc(one.fit(task.train_images[:100]).score(task.test_images[::4]), labels))
    untrained, trained = seen
    assert trained > 0.9
    assert 1 - trained < 0.5 * (1 - untrained)
