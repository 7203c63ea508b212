from dataclasses import replace

import numpy as np
import pytest
import torch

from normscope import Detector, load
from normscope.benchmark.metrics import auroc
from normscope.methods import pretrained
from normscope.methods.pretrained import Pretrained, Settings, grid_of
from normscope.networks import pretrained as networks
from normscope.scoring.local import columns, local_surprisal
from normscope.training import loop
from normscope.training.encoded import Cache, Encoded

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


def test_new_normal_images_score_about_one_nat(fitted):
    scores = fitted.score(stripes(100, seed=4))
    assert 0 < scores.mean() < 2, "nats: p-values are about uniform"


def test_scores_hardly_depend_on_the_precision_in_which_encodings_are_kept():
    images = torch.from_numpy(stripes(40))[:, None].repeat(1, 3, 1, 1)
    method = method_at(64)
    method.load_pretrained()
    encoded = Encoded(method, images, torch.device("cpu"), 40)
    exact, rounded = (
        loop.finish_held_out(method, replace(encoded, precision=precision, cache=Cache()), seed=0)[1]
        for precision in (torch.float32, method.kept_in)
    )
    assert method.kept_in is torch.float16
    assert 0 < (exact - rounded).abs().max() < 0.02 * exact.std()


def method_at(size, **settings):
    return Pretrained(Settings(**QUICK | settings), (3, size, size)).eval()


@pytest.mark.parametrize(("size", "side"), [(28, 32), (64, 64)])
def test_small_images_are_enlarged_and_large_ones_are_not(size, side):
    assert method_at(size).encoder.size == (side, side)


def test_codes_and_maps_are_taken_out_of_what_is_encoded():
    method, x = method_at(32), torch.rand(3, 3, 32, 32) * 2 - 1
    with torch.inference_mode():
        *local, last = method.encoder(x)
        encoded = method.encode(x)
        code = last.mean((2, 3))
        near = {"rtol": 1e-2, "atol": 1e-3}  # half precision
        torch.testing.assert_close(method.code(encoded), code / code.norm(dim=1, keepdim=True), **near)
        channels = torch.tensor([0, 5, 79])
        torch.testing.assert_close(method.maps(encoded, channels), columns(local[1:], (4, 4))[:, channels], **near)


def test_long_images_keep_their_shape_and_the_grid_stays_small():
    method = Pretrained(Settings(), (3, 448, 1024)).eval()
    assert method.encoder.size == (448, 1024)
    assert grid_of(method.encoder.shapes[1][1:]) == (28, 64)
    assert Pretrained(Settings(side=160), (3, 28, 56)).encoder.size == (160, 320)


def test_a_scratch_on_textures_that_all_differ_is_found():
    """No place has a content of its own and no two images are alike: the head finds what the others cannot."""
    good, new = squares(40, 0), squares(20, 1)
    one = Detector("pretrained", settings=QUICK | {"side": 96}, false_alarm_rate=None).fit(good)
    bad = new.copy()
    for image in bad:
        image[np.arange(40, 70), np.arange(20, 50)] = 128
        image[np.arange(40, 70), np.arange(21, 51)] = 128
    scores = np.concatenate([one.score(new), one.score(bad)])
    assert auroc(scores, np.arange(40) >= 20) > 0.9
    assert "self-made defects" in one.card["summary"]


def squares(n, seed):
    """Black and white squares of 96 × 96 at random places."""
    rng, images = np.random.default_rng(seed), np.full((n, 96, 96), 255, np.uint8)
    for image in images:
        for y, x in rng.integers(0, 72, (6, 2)):
            image[y : y + 24, x : x + 24] = 0
    return images


def test_of_many_images_some_are_encoded(monkeypatch):
    method = method_at(32, references=6)
    pixels = np.random.default_rng(0).integers(0, 256, (40, 3, 32, 32), dtype=np.uint8)
    monkeypatch.setattr(method, "finish", lambda batches: {"encoded": torch.cat(list(batches))})
    batches = encoded(monkeypatch)
    reference = loop.finish(method, Encoded(method, pixels, torch.device("cpu"), 4), seed=0)
    assert sum(batches) == len(reference["encoded"]) == 6


@pytest.mark.parametrize("defects", ["yes", "no"])
def test_images_that_a_part_does_not_study_are_scored_by_it_as_new_ones(monkeypatch, defects):
    monkeypatch.setattr(pretrained, "MOST_DEFECTIVE", 12)
    method = method_at(64, side=64, local_references=20, defects=defects)
    method.load_pretrained()
    images = Encoded(method, stripes(40)[:, None].repeat(3, 1), torch.device("cpu"), 16)
    reference, scores, chosen = loop.finish_held_out(method, images, seed=0)
    assert chosen.tolist() == list(range(40))
    assert len(scores) == 40
    assert scores.isfinite().all()
    new = torch.cat([method.score(batch, reference) for batch in images])
    assert scores.mean() == pytest.approx(float(new.mean()), abs=1.5)  # most of these were fitted to: too usual
    assert ("heads.hot" in reference) == (defects == "yes")


@pytest.mark.parametrize("defects", ["yes", "no"])
def test_both_judgements_at_once_are_those_of_each(monkeypatch, defects):
    method = method_at(64, side=64, defects=defects)
    method.load_pretrained()
    images = Encoded(method, stripes(12)[:, None].repeat(3, 1), torch.device("cpu"), 12)
    with torch.inference_mode():
        reference = loop.finish(method, images, seed=0)
        (batch,) = images
        asked = []
        monkeypatch.setattr(pretrained, "local_surprisal", lambda *of: asked.append(of) or local_surprisal(*of))
        score, heat = method.judge(batch, reference)
        assert len(asked) == 1
        assert torch.equal(score, method.score(batch, reference))
        assert torch.equal(heat, method.explain(batch, reference))


def encoded(monkeypatch):
    """A list that grows by the number of images in each batch that goes through an encoder."""
    batches, forward = [], networks.Frozen.forward
    monkeypatch.setattr(networks.Frozen, "forward", lambda own, x: (batches.append(len(x)), forward(own, x))[1])
    return batches


def test_a_fit_that_looks_for_outliers_encodes_each_image_once(monkeypatch):
    monkeypatch.setattr("normscope.scoring.held_out.MOST", 16)
    images = stripes(60)
    images[7] = 255 - images[7]
    batches = encoded(monkeypatch)
    one = Detector("pretrained", settings=QUICK, false_alarm_rate=0.1).fit(images)
    assert sum(batches) == 60
    assert one.outliers[0].position == 7
    one.score(images)
    assert sum(batches) == 60 + 60, "encodings are kept during a fit alone"


@pytest.mark.parametrize(("most", "times"), [(10, 1), (45, 2), (400, 6)])
def test_defects_are_drawn_into_few_images_more_than_once(monkeypatch, most, times):
    monkeypatch.setattr(pretrained, "MOST_DEFECTIVE", most)
    monkeypatch.setattr(pretrained, "fit_defects", lambda pairs, layout: None)  # what is encoded counts alone
    batches = encoded(monkeypatch)
    Detector("pretrained", settings=QUICK | {"defects": "yes"}, false_alarm_rate=None).fit(stripes(20))
    assert sum(batches) == 20 + times * min(20, most)


def test_images_in_which_no_defect_can_be_drawn_have_no_head():
    flat = np.random.default_rng(0).integers(126, 131, (8, 64, 64)).astype(np.uint8)
    one = Detector("pretrained", settings=QUICK | {"defects": "yes"}, false_alarm_rate=None).fit(flat)
    assert "heads.hot" not in one.model.reference
    assert np.isfinite(one.score(flat)).all()


def test_a_model_file_needs_no_weights_from_elsewhere(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "model")
    monkeypatch.setattr(networks, "wheel_file", lambda: pytest.fail("the weights are in the file"))
    images = stripes(4, seed=5)
    assert (load(tmp_path / "model").score(images) == fitted.score(images)).all()


def test_photographs_are_kept_larger_than_other_methods_keep_them(monkeypatch):
    monkeypatch.setattr(Pretrained, "finish", lambda own, batches: {})
    monkeypatch.setattr(Pretrained, "summary", lambda own, reference: None)
    images = np.random.default_rng(0).integers(0, 256, (10, 300, 280), dtype=np.uint8)
    one = Detector("pretrained", settings=QUICK, false_alarm_rate=None).fit(images)
    assert one.model.size == (450, 420)
