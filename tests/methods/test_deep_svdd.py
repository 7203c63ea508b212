import math

import pytest
import torch

from normscope.errors import SettingError
from normscope.methods.deep_svdd import DeepSVDD, Settings
from normscope.scoring.centre import centre_of, squared_distance
from normscope.training.method import Batch
from normscope.training.randomness import seeded
from normscope.views.contrast import UNSEEN, stretched, widened

SHAPE = (3, 28, 28)


def images(n, seed=0):
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def batch(n, seed=0):
    return Batch(images(n, seed), images(0))


def small(**settings):
    with seeded(0):
        return DeepSVDD(Settings(width=16, **settings), SHAPE)


def trained(steps=1, progress=0.0, **settings):
    method = small(pretraining=False, **settings)
    optimizers = method.optimizers("train")
    records = [method.step(batch(8), optimizers, progress) for _ in range(steps)]
    return method, records


def untrained():
    """As `trained` begins, once the extremes of its images are known."""
    method = small(pretraining=False)
    method.extremes.copy_(widened(method.extremes, images(8)))
    return method


def test_the_published_settings():
    s = Settings()
    assert (s.objective, s.nu, s.warm_up, s.width, s.batch_size) == ("one-class", 0.1, 10, 32, 200)
    pretrain, train = DeepSVDD(s, SHAPE).phases()
    assert (pretrain.epochs, train.epochs) == (350, 150)
    assert [pretrain.rate(epoch / 350) for epoch in (0, 249, 250, 349)] == [1, 1, 0.1, 0.1]
    assert [train.rate(epoch / 150) for epoch in (0, 49, 50, 149)] == [1, 1, 0.1, 0.1]


def test_the_centre_is_the_mean_code_pushed_away_from_nought():
    method, _ = trained()
    with torch.no_grad():
        mean = untrained().eval().code(images(8)).mean(0)
    far = mean.abs() >= 0.1
    assert 0 < far.sum() < len(mean)
    torch.testing.assert_close(method.centre[far], mean[far])
    torch.testing.assert_close(method.centre[~far], 0.1 * mean[~far].sign())


def test_the_centre_stays_where_it_is():
    one, several = trained(1)[0], trained(4)[0]
    assert torch.equal(one.centre, several.centre)
    reference = several.finish([images(16, seed=3)])
    assert torch.equal(reference["centre"], one.centre)
    assert torch.equal(reference["extremes"], one.extremes)


def test_without_a_step_centre_and_extremes_are_those_of_all_images_however_batched():
    method, x = small().eval(), images(10)
    with torch.no_grad():
        reference = method.finish([x[:7], x[7:]])
        torch.testing.assert_close(reference["extremes"], widened(torch.tensor(UNSEEN), x))
        codes = method.encoder(stretched(x, reference["extremes"]))
        torch.testing.assert_close(reference["centre"], centre_of(codes))
        torch.testing.assert_close(method.score(x, reference), squared_distance(codes, reference["centre"]))


def test_one_class_loss_is_the_mean_squared_distance():
    method, (record,) = trained()
    codes = untrained().code(images(8))  # in train mode, as in the step
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
    distances = (untrained().code(images(8)) - method.centre).norm(dim=1).sort().values
    place = 0.75 * 7  # linear between the two distances around it
    low, high = distances[math.floor(place)], distances[math.ceil(place)]
    assert method.radius.item() == pytest.approx((low + 0.25 * (high - low)).item(), rel=1e-4)
    assert not method.radius.requires_grad


def test_the_score_is_the_squared_distance_less_the_squared_radius():
    method, _ = trained()
    method.eval()
    with torch.no_grad():
        reference = method.finish([])
        distance = (method.code(images(5)) - method.centre).norm(dim=1) ** 2
        torch.testing.assert_close(method.score(images(5), reference), distance)
        method.radius.fill_(3.0)
        torch.testing.assert_close(method.score(images(5), reference), distance - 9)


def test_pretraining_sums_the_error_over_pixels_and_leaves_the_centre_to_training():
    method, copy = small(), small()
    record = method.step(batch(6), method.optimizers("pretrain"), 0.0)
    x = stretched(images(6), widened(copy.extremes, images(6)))
    error = (copy.decoder(copy.encoder(x)) - x).square().sum() / 6
    assert record["reconstruction"].item() == pytest.approx(error.item(), rel=1e-4)
    assert not method.centre.any()
    assert not torch.equal(method.encoder.linear[0].weight, copy.encoder.linear[0].weight)
    weights = [p.clone() for p in method.decoder.parameters()]
    method.step(batch(6), method.optimizers("train"), 0.0)
    assert all(torch.equal(p, q) for p, q in zip(weights, method.decoder.parameters(), strict=True))


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"nu": 0.0}, "nu is 0.0"), ({"nu": 1.0}, "nu is 1.0"), ({"batch_size": 1}, "2 or more"), ({"width": 20}, "16")],
)
def test_bad_settings_are_refused(settings, told):
    with pytest.raises(SettingError, match=told):
        DeepSVDD(Settings(**settings), SHAPE)


def test_a_reference_stays_as_it_was_when_training_goes_on():
    method, _ = trained()
    reference = method.finish([images(8)])
    before = {name: value.clone() for name, value in reference.items()}
    spotted = images(8)
    spotted[:, :, 0, 0] = 100.0
    method.train().step(Batch(spotted, spotted[:0]), method.optimizers("train"), 0.5)
    assert all(torch.equal(reference[name], value) for name, value in before.items())
    assert not torch.equal(method.extremes, reference["extremes"])
