from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image

from normscope import Detector
from normscope.errors import SettingError
from normscope.methods import settings_of
from normscope.methods.surprisal import Settings, Surprisal, told
from normscope.objective.cross_entropy import norm_margin
from normscope.settings import build


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


@pytest.mark.parametrize(
    ("shifts", "reference"), [("none", "gaussian"), ("none", "mixture"), ("rotations", "neighbours")]
)
def test_every_reference_tells_noise_from_gradients(shifts, reference):
    one = fitted(shifts=shifts, contrast=shifts == "none", reference=reference)
    noise = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    assert one.score(noise).min() > one.score(gradients(20, seed=1)).max()


def test_new_normal_images_score_about_zero():
    """The surprisals are on the scale of images that their reference was not fitted to."""
    new = gradients(200, seed=2)
    scores = fitted(shifts="none", contrast=True, reference="gaussian").score(new)
    assert abs(scores.mean()) < 2  # halves of 32 images are references of 16, which find others a little stranger
    assert scores.std() < 2


def test_a_rotation_that_nobody_can_tell_counts_for_nothing():
    """Noise looks the same in all four, which is no collapse; a gradient does not."""
    noise = np.random.default_rng(0).integers(0, 256, (32, 28, 28), dtype=np.uint8)
    settings = {"width": 16, "batch_size": 8}
    round_, upright = (
        one.fitted().memory["weight"]
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
    assert with_.fitted().memory["weight"][5::2].tolist() == [1.0] * 4


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


def test_anomalies_stand_behind_the_images_and_are_few():
    method = Surprisal(build(settings_of("surprisal"), {"width": 16}), (3, 28, 28))
    images, bad = method.with_anomalies(torch.zeros(16, 3, 28, 28))
    assert len(images) == 16
    assert not bad.any()
    method.anomalies = torch.ones(10, 3, 28, 28)
    images, bad = method.with_anomalies(torch.zeros(16, 3, 28, 28))
    assert bad.tolist() == [False] * 16 + [True] * 4
    assert (images.amax((1, 2, 3)) == bad).all()


def step(**settings: object) -> dict[str, float]:
    torch.manual_seed(0)
    method = Surprisal(build(settings_of("surprisal"), {"width": 16, **settings}), (3, 28, 28))
    record = method.step(torch.rand(6, 3, 28, 28), method.optimizers("train"), 0.5)
    return {name: value.item() for name, value in record.items()}


def test_without_shifts_there_is_nothing_to_tell_apart_but_images():
    assert "separation" not in step(shifts="none", contrast=True)
    assert "separation" in step(shifts="rotations")
    with pytest.raises(SettingError, match="set contrast=true"):
        step(shifts="none")


def test_the_parts_of_the_objective_matter():
    """A weight that is ignored, or a critic that is left out, would leave the loss unchanged."""
    losses = {
        "as it is": step(),
        "gamma": step(gamma=50.0),
        "beta": step(beta=50.0),
        "contrast": step(contrast=True),
    }
    assert len({record["loss"] for record in losses.values()}) == 4
    assert losses["beta"]["loss"] > losses["as it is"]["loss"]
    assert losses["gamma"]["loss"] > losses["as it is"]["loss"]  # the margin is not met at first


@pytest.mark.parametrize(("contrast", "views"), [(False, 1), (True, 2)])
def test_every_view_enters_in_four_rotations_of_which_the_upright_is_the_normal_one(contrast, views):
    seen, parted = [], []

    def separation(normal: torch.Tensor, anomalous: torch.Tensor) -> torch.Tensor:
        parted.append((len(normal), len(anomalous)))
        return norm_margin(normal, anomalous)

    method = Surprisal(Settings(width=16, contrast=contrast, separation=separation), (3, 28, 28))
    method.encoder.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    method.step(torch.rand(6, 3, 28, 28), method.optimizers("train"), 0.5)
    assert (seen, parted) == ([views * 4 * 6], [(views * 6, views * 3 * 6)])


def test_the_scores_of_answers_are_those_of_the_logits():
    logits = torch.arange(24.0).reshape(2, 2, 2, 3)
    right, wrong = told(logits, torch.tensor([0, 2]))
    assert right.tolist() == [0, 3, 6, 9, 14, 17, 20, 23]
    assert wrong[0].tolist() == [1, 2]
    assert wrong[-1].tolist() == [21, 22]


def test_both_optimisers_move_what_they_own():
    torch.manual_seed(0)
    method = Surprisal(build(settings_of("surprisal"), {"width": 16}), (3, 28, 28))
    before = {name: value.clone() for name, value in method.named_parameters()}
    method.step(torch.rand(6, 3, 28, 28), method.optimizers("train"), 0.5)
    assert all(not torch.equal(before[name], value) for name, value in method.named_parameters())


def test_size_and_colour_reach_the_score():
    one = fitted()
    image = gradients(1, seed=3)
    assert one.score(image) == pytest.approx(one.score(np.repeat(image[..., None], 3, -1)))
    enlarged = np.array(Image.fromarray(image[0]).resize((56, 56), Image.Resampling.NEAREST))[None]
    assert one.score(enlarged)[0] < one.score(np.rot90(image, 1, (1, 2)).copy())[0]
