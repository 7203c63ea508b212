import math

import pytest
import torch

from normscope import Detector
from normscope.benchmark.metrics import auroc
from normscope.datasets import digits
from normscope.errors import SettingError
from normscope.intake import gather
from normscope.methods.deep_svdd import DeepSVDD, Settings
from normscope.training import loop
from normscope.training.randomness import seeded

SHAPE = (3, 28, 28)


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def small(**settings):
    with seeded(0):
        return DeepSVDD(Settings(width=16, **settings), SHAPE)


def trained(steps=1, progress=0.0, **settings):
    method = small(pretraining=False, **settings)
    optimizers = method.optimizers("train")
    records = [method.step(images(8), optimizers, progress) for _ in range(steps)]
    return method, records


def test_the_published_settings():
    s = Settings()
    assert (s.objective, s.nu, s.warm_up, s.width, s.batch_size) == ("one-class", 0.1, 10, 32, 200)
    pretrain, train = DeepSVDD(s, SHAPE).phases()
    assert (pretrain.epochs, train.epochs) == (350, 150)
    assert [pretrain.rate(epoch / 350) for epoch in (0, 249, 250, 349)] == [1, 1, 0.1, 0.1]
    assert [train.rate(epoch / 150) for epoch in (0, 49, 50, 149)] == [1, 1, 0.1, 0.1]


def test_the_centre_is_the_mean_code_pushed_away_from_nought():
    method, _ = trained()
    untrained = small(pretraining=False).eval()
    untrained.contrast.observe(images(8))
    with torch.no_grad():
        mean = untrained.code(images(8)).mean(0)
    far = mean.abs() >= 0.1
    assert 0 < far.sum() < len(mean)
    torch.testing.assert_close(method.centre[far], mean[far])
    torch.testing.assert_close(method.centre[~far], 0.1 * mean[~far].sign())


def test_the_centre_stays_where_it_is():
    one, several = trained(1)[0], trained(4)[0]
    assert torch.equal(one.centre, several.centre)
    several.finish([images(16, seed=3)])
    assert torch.equal(one.centre, several.centre)


def test_one_class_loss_is_the_mean_squared_distance():
    method, (record,) = trained()
    before = small(pretraining=False)
    before.contrast.observe(images(8))
    codes = before.code(images(8))  # in train mode, as in the step
    by_hand = sum(((code - method.centre) ** 2).sum().item() for code in codes) / 8
    assert record["loss"].item() == pytest.approx(by_hand, rel=1e-5)
    assert record["spread"].item() == pytest.approx(codes.std(0).mean().item(), rel=1e-5)


def test_soft_boundary_loss_by_hand():
    method = small(objective="soft-boundary", nu=0.25)
    method.radius.fill_(2.0)
    assert method.loss(torch.tensor([1.0, 4.0, 6.0, 9.0])).item() == pytest.approx(4 + (0 + 0 + 2 + 5) / 4 / 0.25)


def test_the_radius_is_a_quantile_of_distances_after_the_warm_up():
    early, _ = trained(objective="soft-boundary", nu=0.25, warm_up=15, progress=0.09)
    assert early.radius == 0
    method, _ = trained(objective="soft-boundary", nu=0.25, warm_up=15, progress=0.1)
    before = small(pretraining=False)
    before.contrast.observe(images(8))
    distances = (before.code(images(8)) - method.centre).norm(dim=1).sort().values
    place = 0.75 * 7  # linear between the two distances around it
    low, high = distances[math.floor(place)], distances[math.ceil(place)]
    assert method.radius.item() == pytest.approx((low + 0.25 * (high - low)).item(), rel=1e-4)


def test_the_score_is_the_squared_distance_less_the_squared_radius():
    method, _ = trained()
    method.eval()
    with torch.no_grad():
        distance = (method.code(images(5)) - method.centre).norm(dim=1) ** 2
        torch.testing.assert_close(method.score(images(5)), distance)
        method.radius.fill_(3.0)
        torch.testing.assert_close(method.score(images(5)), distance - 9)


def test_pretraining_sums_the_error_over_pixels_and_leaves_the_centre_to_training():
    method, copy = small(), small()
    record = method.step(images(6), method.optimizers("pretrain"), 0.0)
    copy.contrast.observe(images(6))
    x = copy.contrast(images(6))
    error = (copy.decoder(copy.encoder(x)) - x).square().sum() / 6
    assert record["reconstruction"].item() == pytest.approx(error.item(), rel=1e-4)
    assert method.centre.isnan().all()
    assert not torch.equal(method.encoder.linear[0].weight, copy.encoder.linear[0].weight)
    weights = [p.clone() for p in method.decoder.parameters()]
    method.step(images(6), method.optimizers("train"), 0.0)
    assert all(torch.equal(p, q) for p, q in zip(weights, method.decoder.parameters(), strict=True))


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"nu": 0.0}, "nu is 0.0"), ({"nu": 1.0}, "nu is 1.0"), ({"batch_size": 1}, "2 or more"), ({"width": 20}, "16")],
)
def test_bad_settings_are_refused(settings, told):
    with pytest.raises(SettingError, match=told):
        DeepSVDD(Settings(**settings), SHAPE)


@pytest.mark.parametrize("objective", ["one-class", "soft-boundary"])
def test_learns_the_digit_nine(objective):
    task = digits.load().task(9)
    settings = Settings(network="mnist", objective=objective, learning_rate=1e-3, batch_size=32)
    seen = []
    for phases in ([], DeepSVDD(settings, SHAPE).phases()):
        with seeded(2):  # a poor encoder at first; some random ones separate the digits nearly as well as trained ones
            method = DeepSVDD(settings, SHAPE)
        method.phases = lambda these=phases: these
        loop.fit(method, gather(task.train_images[:100], "auto")[0], loop.Plan(epochs=20))
        one = Detector("deep-svdd", false_alarm_rate=None)
        one.method = method
        seen.append(auroc(one.score(task.test_images), task.test_labels.look()))
    before, after = seen
    assert after > 0.88
    assert 1 - after < 0.6 * (1 - before)
