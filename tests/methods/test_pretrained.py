import copy

import numpy as np
import pytest
import torch

from normscope import Detector, load
from normscope.methods.pretrained import Pretrained, Settings, weights_of
from normscope.networks import pretrained as networks

QUICK = {"side": 32, "channels": 20}


def stripes(n, seed=0):
    """Grey stripes of 64 × 64 that differ in brightness and a little noise: one thing under one camera."""
    rng = np.random.default_rng(seed)
    wave = 100 + 60 * np.sin(np.arange(64) / 3)
    noise = rng.normal(0, 4, (n, 64, 64)) + rng.uniform(-10, 10, (n, 1, 1))
    return (wave + noise).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def fitted():
    return Detector("pretrained", settings=QUICK, false_alarm_rate=None).fit(stripes(60))


def scratched(images):
    images = images.copy()
    images[:, 30:34, 10:40] = 250
    return images


def test_a_scratch_is_found_and_shown_where_it_is(fitted):
    new = stripes(30, seed=1)
    assert fitted.score(scratched(new)).min() > fitted.score(new).max()
    heat = fitted.explain(scratched(new)).mean(0)
    assert heat[26:38, 10:40].mean() > 2 * np.delete(heat, slice(18, 46), axis=0).mean()


def test_a_good_image_is_not_hot(fitted):
    heat = fitted.explain(stripes(100, seed=2))
    assert np.mean(heat.max((1, 2)) > 1) < 0.1
    assert fitted.explain(scratched(stripes(5, seed=3))).max((1, 2)).min() > 1


def test_new_normal_images_score_about_zero(fitted):
    scores = fitted.score(stripes(100, seed=4))
    assert abs(scores.mean()) < 1
    assert scores.std() < 2


def test_alike_images_are_judged_by_their_strangest_place():
    direction = torch.nn.functional.normalize(torch.ones(1, 8))
    alike = torch.nn.functional.normalize(direction + 0.05 * torch.randn(50, 8), dim=1)
    unlike = torch.nn.functional.normalize(torch.randn(50, 8), dim=1)
    assert weights_of(alike)[1] > 0.9
    assert weights_of(unlike)[1] < 0.1
    assert weights_of(alike).sum() == pytest.approx(1)


def test_of_many_images_some_are_looked_at(monkeypatch):
    most = 6  # few enough for batches of which none is looked at
    method = Pretrained(Settings(side=32, channels=20, references=most, local_references=4), (3, 32, 32))
    seen = []
    look = method.look
    monkeypatch.setattr(method, "look", lambda images: (seen.append(len(images)), look(images))[1])
    with torch.no_grad():
        method.finish(list(torch.rand(40, 3, 32, 32).split(4)))
    assert sum(seen) == most
    assert min(seen) > 0


def encoded(monkeypatch):
    """A list that grows by the number of images in each batch that goes through an encoder."""
    batches, forward = [], networks.Frozen.forward
    monkeypatch.setattr(networks.Frozen, "forward", lambda own, x: (batches.append(len(x)), forward(own, x))[1])
    return batches


def test_a_fit_with_suspects_encodes_each_image_once(monkeypatch):
    images = stripes(30)
    images[7] = 255 - images[7]
    batches = encoded(monkeypatch)
    one = Detector("pretrained", settings=QUICK, false_alarm_rate=0.1).fit(images)
    assert sum(batches) == 30 + 1  # one to count the channels
    assert one.suspects[0].place == 7
    assert one.fitted().looks is None
    one.score(images)
    one.score(images)
    assert sum(batches) == 31 + 60


def test_what_does_not_fit_in_memory_is_looked_at_again():
    looks, seen = networks.Looks(most=5 * 4), []

    def look(images):
        seen.extend(images[:, 0].tolist())
        return [images * 2]

    images = torch.arange(8.0)[:, None]
    for _ in range(2):
        assert torch.equal(looks(look, images)[0], images * 2)
    assert seen == [0, 1, 2, 3, 4, 5, 6, 7, 5, 6, 7]
    assert torch.equal(copy.deepcopy(looks)(look, images[[3, 1]])[0], images[[3, 1]] * 2)
    assert len(seen) == 11


def test_a_model_file_needs_no_weights_from_elsewhere(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "model")
    monkeypatch.setattr(networks, "wheel_file", lambda: pytest.fail("the weights are in the file"))
    images = stripes(4, seed=5)
    assert (load(tmp_path / "model").score(images) == fitted.score(images)).all()


def test_large_images_are_kept_larger_than_other_methods_keep_them():
    images = np.random.default_rng(0).integers(0, 256, (10, 300, 280), dtype=np.uint8)
    one = Detector("pretrained", settings=QUICK, false_alarm_rate=None).fit(images)
    assert one.fitted().shape == (3, 224, 224)
