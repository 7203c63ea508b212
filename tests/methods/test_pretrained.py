import numpy as np
import pytest
import torch

from normscope import Detector, load
from normscope.methods.pretrained import Pretrained, Settings, weights_of
from normscope.networks import pretrained as networks
from normscope.scoring.local import columns
from normscope.training import loop
from normscope.training.encoded import Encoded

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


def test_alike_images_are_judged_by_their_hottest_location():
    direction = torch.nn.functional.normalize(torch.ones(1, 8))
    alike = torch.nn.functional.normalize(direction + 0.05 * torch.randn(50, 8), dim=1)
    unlike = torch.nn.functional.normalize(torch.randn(50, 8), dim=1)
    assert weights_of(alike)[1] > 0.9
    assert weights_of(unlike)[1] < 0.1
    assert weights_of(alike).sum() == pytest.approx(1)


def method_at(size, **settings):
    return Pretrained(Settings(**QUICK | settings), (3, size, size)).eval()


@pytest.mark.parametrize(("size", "side"), [(28, 32), (64, 64)])
def test_small_images_are_enlarged_and_large_ones_are_not(size, side):
    assert method_at(size).encoder.side == side


def test_codes_and_maps_are_taken_out_of_what_is_encoded():
    method, x = method_at(32), torch.rand(3, 3, 32, 32) * 2 - 1
    with torch.inference_mode():
        *local, last = method.encoder(x)
        encoded = method.encode(x)
        code = last.mean((2, 3))
        torch.testing.assert_close(method.code(encoded), code / code.norm(dim=1, keepdim=True))
        channels = torch.tensor([0, 5, 79])
        assert torch.equal(method.maps(encoded, channels), columns(local, (4, 4))[:, channels])


def test_of_many_images_some_are_encoded(monkeypatch):
    method = method_at(32, references=6)
    pixels = np.random.default_rng(0).integers(0, 256, (40, 3, 32, 32), dtype=np.uint8)
    monkeypatch.setattr(method, "finish", lambda batches: {"encoded": torch.cat(list(batches))})
    batches = encoded(monkeypatch)
    reference = loop.finish(method, Encoded(method, pixels, torch.device("cpu"), 4), seed=0)
    assert sum(batches) == len(reference["encoded"]) == 6


def encoded(monkeypatch):
    """A list that grows by the number of images in each batch that goes through an encoder."""
    batches, forward = [], networks.Frozen.forward
    monkeypatch.setattr(networks.Frozen, "forward", lambda own, x: (batches.append(len(x)), forward(own, x))[1])
    return batches


def test_a_fit_that_looks_for_outliers_encodes_each_image_once(monkeypatch):
    images = stripes(30)
    images[7] = 255 - images[7]
    batches = encoded(monkeypatch)
    one = Detector("pretrained", settings=QUICK, false_alarm_rate=0.1).fit(images)
    assert sum(batches) == 30
    assert one.outliers[0].position == 7
    one.score(images)
    assert sum(batches) == 30 + 30, "encodings are kept during a fit alone"


def test_a_model_file_needs_no_weights_from_elsewhere(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "model")
    monkeypatch.setattr(networks, "wheel_file", lambda: pytest.fail("the weights are in the file"))
    images = stripes(4, seed=5)
    assert (load(tmp_path / "model").score(images) == fitted.score(images)).all()


def test_large_images_are_kept_larger_than_other_methods_keep_them(monkeypatch):
    monkeypatch.setattr(Pretrained, "finish", lambda own, batches: {})
    images = np.random.default_rng(0).integers(0, 256, (10, 300, 280), dtype=np.uint8)
    one = Detector("pretrained", settings=QUICK, false_alarm_rate=None).fit(images)
    assert one.model.method.shape == (3, 224, 224)
