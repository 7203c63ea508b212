from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image

from normscope import Detector
from normscope.methods.surprisal import ROTATIONS, Settings, Surprisal, classified
from normscope.networks import pretrained as networks
from normscope.networks.pretrained import lite_weights
from normscope.scoring.surprisal import gaussians
from normscope.training.method import Batch, part


def gradients(n: int, seed: int = 0) -> np.ndarray:
    """Brighter towards the bottom, with noise: an image with an upright."""
    noise = np.random.default_rng(seed).normal(0, 10, (n, 28, 28))
    return np.clip(np.linspace(20, 230, 28)[:, None] + noise, 0, 255).astype(np.uint8)


@cache
def fitted(epochs: int = 2, **settings: object) -> Detector:
    settings = {"width": 16, "batch_size": 8, **settings}
    one = Detector("surprisal", settings=settings, epochs=epochs, false_alarm_rate=None)
    return one.fit(gradients(32), allow_collapse=True)


def test_a_turned_image_is_surprising():
    one = fitted(epochs=10)
    upright = gradients(20, seed=1)
    turned = np.rot90(upright, 2, (1, 2)).copy()
    assert np.median(one.score(turned)) > one.score(upright).max()


def test_where_the_image_is_odd():
    one = fitted()
    images = gradients(4, seed=1)
    images[:, 4:10, 18:24] = 255 - images[:, 4:10, 18:24]
    heat = one.explain(images)
    inside = heat[:, 4:10, 18:24].mean((1, 2))
    assert (inside > 2 * heat[:, 18:, :10].mean((1, 2))).all()


@pytest.mark.parametrize("settings", [{}, {"reference": "mixture"}, {"reference": "neighbours"}])
def test_every_reference_tells_noise_from_gradients(settings):
    one = fitted(**settings)
    noise = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    assert one.score(noise).min() > one.score(gradients(20, seed=1)).max()


def in_colour(images: np.ndarray) -> np.ndarray:
    """Darker in red and blue than in green."""
    return (images[..., None] * np.array([0.5, 1.0, 0.7])).astype(np.uint8)


def test_images_in_colour_have_neighbours_and_grey_ones_gaussians():
    one = Detector("surprisal", settings={"width": 16, "batch_size": 8}, epochs=2, false_alarm_rate=None)
    for images, present, absent in (
        (in_colour(gradients(32)), "neighbours.codes", "0.mean"),
        (np.repeat(gradients(32)[..., None], 3, -1), "0.mean", "neighbours.codes"),
    ):
        reference = one.fit(images, allow_collapse=True).model.reference
        assert present in reference
        assert absent not in reference


def test_neighbours_take_an_image_for_its_mirror_image():
    """Not quite, for a stride of two over an even side begins at the other end."""
    images = gradients(40)
    images[:, 4:10, 3:9] = 255
    mirrored = images[..., ::-1].copy()
    one, other = (
        Detector("surprisal", settings={"width": 16, "batch_size": 8, **own}, epochs=2, false_alarm_rate=None)
        for own in ({"reference": "neighbours"}, {"reference": "neighbours", "flip": 0.0})
    )
    for detector in (one, other):
        detector.fit(images[:32], allow_collapse=True)
    apart, without = (abs(own.score(images[32:]) - own.score(mirrored[32:])).max() for own in (one, other))
    assert apart < 1e-3 < without


def test_new_normal_images_score_about_zero():
    """The surprisals are on the scale of images that their reference was not fitted to."""
    new = gradients(200, seed=2)
    scores = fitted().score(new)
    assert abs(scores.mean()) < 2  # halves of 32 images are references of 16, which find others a little stranger
    assert scores.std() < 2


def test_a_rotation_that_nobody_can_tell_counts_for_nothing():
    """Noise looks the same in all four, which is no collapse; a gradient does not."""
    noise = np.random.default_rng(0).integers(0, 256, (32, 28, 28), dtype=np.uint8)
    settings = {"width": 16, "batch_size": 8}
    round_, upright = (
        one.model.reference["weight"]
        for one in (
            Detector("surprisal", settings=settings, epochs=10, false_alarm_rate=None).fit(noise),
            fitted(epochs=10),
        )
    )
    assert round_[:4].tolist() == upright[:4].tolist() == [1.0] * 4
    assert upright[4::2].min() > 0.5 > round_[4::2].max()
    assert not round_[5::2].any()  # nobody showed an anomaly


def test_a_good_image_is_not_hot():
    one = fitted()
    assert np.mean(one.explain(gradients(100, seed=2)).max((1, 2)) > 1) < 0.1
    odd = gradients(4, seed=1)
    odd[:, 4:10, 18:24] = 255 - odd[:, 4:10, 18:24]
    assert one.explain(odd).max((1, 2)).min() > 1


def test_labelled_anomalies_are_found_by_their_kind():
    """Of two kinds of odd images, the one that was shown rises against the other."""
    normal = gradients(32)
    squares = normal.copy()
    squares[:, 2:8, 2:8] = 128
    kinds = {"shown": gradients(20, seed=1), "other": gradients(20, seed=1)}
    kinds["shown"][:, 2:8, 2:8] = 128
    kinds["other"][:, 20:26, 20:26] = 128
    settings = {"width": 16, "batch_size": 8, "smallest_area": 1.0, "flip": 0.0, "colour": 0.0, "grey": 0.0}
    without, with_ = (
        Detector("surprisal", settings=settings, epochs=8, false_alarm_rate=None).fit(
            normal, anomalies=known, allow_collapse=True
        )
        for known in (None, squares[:16])
    )
    gap = {
        name: np.median(one.score(kinds["shown"])) - np.median(one.score(kinds["other"]))
        for name, one in (("without", without), ("with", with_))
    }
    assert gap["with"] > gap["without"] + 1


def test_labelled_anomalies_are_found_where_no_rotation_can_be_told():
    def noise(n: int, seed: int, height: int) -> np.ndarray:
        """With a grey square at a random place, `height` pixels a side."""
        rng = np.random.default_rng(seed)
        images = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        for image, y, x in zip(images, rng.integers(0, 18, n), rng.integers(0, 18, n), strict=True):
            image[y : y + height, x : x + height] = 128
        return images

    settings = {"width": 16, "batch_size": 8}
    one = Detector("surprisal", settings=settings, epochs=15, false_alarm_rate=None)
    one.fit(noise(32, 0, 0), anomalies=noise(32, 1, 10))
    assert np.median(one.score(noise(40, 2, 10))) > one.score(noise(40, 3, 0)).max()


def small(**settings: object) -> Surprisal:
    torch.manual_seed(0)
    return Surprisal(Settings(width=16, **settings), (3, 28, 28))


@pytest.mark.parametrize("anomalies", [0, 2])
def test_anomalies_are_one_more_class_in_every_rotation(monkeypatch, anomalies):
    method = small(smallest_area=1.0, flip=0.0, colour=0.0, grey=0.0)
    given, labels = [], []
    method.encoder.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    critics = method.critics
    monkeypatch.setattr(method, "critics", lambda z, local, label: (labels.append(label), critics(z, local, label))[1])
    batch = Batch(torch.zeros(6, 3, 28, 28), torch.ones(anomalies, 3, 28, 28))
    method.step(batch, method.optimizers("train"), 0.5)
    assert labels[0].tolist() == [k for rotation in range(4) for k in [rotation] * 6 + [ROTATIONS] * anomalies]
    assert torch.equal(given[0].mean((1, 2, 3)) > 0.5, labels[0] == ROTATIONS)
    assert method.shown == (anomalies > 0)


def step(**settings: object) -> dict[str, float]:
    method = small(**settings)
    batch = Batch(torch.rand(6, 3, 28, 28), torch.empty(0, 3, 28, 28))
    record = method.step(batch, method.optimizers("train"), 0.5)
    return {name: value.item() for name, value in record.items()}


def test_the_parts_of_the_objective_matter():
    """A weight that is ignored would leave the loss unchanged."""
    plain, beta, gamma = step(), step(beta=50.0), step(gamma=50.0)
    assert len({record["loss"] for record in (plain, beta, gamma)}) == 3
    assert beta["loss"] > plain["loss"]
    assert gamma["loss"] > plain["loss"]  # the margin is not met at first


def test_the_head_classifies_the_code_and_every_location():
    method, label = small(), torch.tensor([0, 3])
    z, local = torch.randn(2, method.encoder.dimension), torch.randn(2, method.encoder.dimension, 3, 5)
    (whole, _), (each, _) = method.critics(z, local, label)
    assert torch.equal(whole, method.head(z)[[0, 1], label])
    places = [method.head(local[i, :, y, x])[label[i]] for i in range(2) for y in range(3) for x in range(5)]
    torch.testing.assert_close(each, torch.stack(places))


def test_the_scores_of_classes_are_those_of_the_logits():
    logits = torch.arange(24.0).reshape(2, 2, 2, 3)
    right, wrong = classified(logits, torch.tensor([0, 2]))
    assert right.tolist() == [0, 3, 6, 9, 14, 17, 20, 23]
    assert wrong[0].tolist() == [1, 2]
    assert wrong[-1].tolist() == [21, 22]


def test_both_optimisers_move_what_they_own():
    method = small()
    before = {name: value.clone() for name, value in method.named_parameters()}
    method.step(Batch(torch.rand(6, 3, 28, 28), torch.rand(2, 3, 28, 28)), method.optimizers("train"), 0.5)
    assert all(not torch.equal(before[name], value) for name, value in method.named_parameters())


def test_size_and_colour_reach_the_score():
    one = fitted()
    image = gradients(1, seed=3)
    assert one.score(image) == pytest.approx(one.score(np.repeat(image[..., None], 3, -1)))
    enlarged = np.array(Image.fromarray(image[0]).resize((56, 56), Image.Resampling.NEAREST))[None]
    assert one.score(enlarged)[0] < one.score(np.rot90(image, 1, (1, 2)).copy())[0]


def test_a_pretrained_encoder_is_half_of_the_score():
    alone, both = fitted(), fitted(pretrained="efficientnet-lite0")
    new = gradients(20, seed=1)
    method, reference = both.model.method, both.model.reference
    x = torch.from_numpy(new)[:, None].expand(-1, 3, -1, -1) / 127.5 - 1
    with torch.inference_mode():
        known = part(reference, "frozen")
        seen = gaussians(method.frozen_codes(method.encode(x)), known, method.frozen.shapes[-1][0])
        half = ((seen - known["mean"]) / known["deviation"]).mean(1)
    assert np.allclose(2 * both.score(new) - alone.score(new), half.numpy(), atol=1e-2), "training is the same"
    assert seen.shape[1] == 2, "each image in two sizes"


def test_each_image_goes_through_the_pretrained_encoder_once(monkeypatch):
    batches, codes = [], networks.Frozen.codes
    monkeypatch.setattr(
        networks.Frozen, "codes", lambda own, x, *sizes: (batches.append(len(x)), codes(own, x, *sizes))[1]
    )
    settings = {"width": 16, "batch_size": 8, "least_steps": 20, "pretrained": "efficientnet-lite0"}
    one = Detector("surprisal", settings=settings, epochs=1, budget=100.0, false_alarm_rate=0.1)
    one.fit(gradients(40), allow_collapse=True)
    assert sum(batches) == 40


def test_the_pretrained_encoder_is_not_trained():
    method = fitted(pretrained="efficientnet-lite0").model.method
    published = lite_weights("efficientnet-lite0", "")
    assert all(torch.equal(value, published[name]) for name, value in method.frozen.network.state_dict().items())
