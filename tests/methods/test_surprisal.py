import numpy as np
import pytest
import torch
from PIL import Image

from normscope import Detector
from normscope.methods import settings_of
from normscope.methods.surprisal import Surprisal
from normscope.settings import build


def gradients(n: int, seed: int = 0) -> np.ndarray:
    """Brighter towards the bottom, with noise: an image with an upright."""
    noise = np.random.default_rng(seed).normal(0, 10, (n, 28, 28))
    return np.clip(np.linspace(20, 230, 28)[:, None] + noise, 0, 255).astype(np.uint8)


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


@pytest.mark.parametrize("shifts", ["rotations", "none"])
@pytest.mark.parametrize("reference", ["gaussian", "mixture", "neighbours"])
def test_every_reference_tells_noise_from_gradients(shifts, reference):
    one = fitted(shifts=shifts, reference=reference)
    noise = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    assert one.score(noise).min() > one.score(gradients(20, seed=1)).max()


def test_new_normal_images_score_about_zero():
    """The surprisals are on the scale of images that their reference was not fitted to."""
    new = gradients(200, seed=2)
    scores = fitted(reference="gaussian", head=0.0).score(new)
    assert abs(scores.mean()) < 1  # halves of 32 images are references of 16, which find others a little stranger
    assert scores.std() < 2


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


def test_anomalies_stand_behind_the_images_and_are_few():
    method = Surprisal(build(settings_of("surprisal"), {"width": 16}), (3, 28, 28))
    images, bad = method.with_anomalies(torch.zeros(16, 3, 28, 28))
    assert len(images) == 16
    assert not bad.any()
    method.anomalies = torch.ones(10, 3, 28, 28)
    images, bad = method.with_anomalies(torch.zeros(16, 3, 28, 28))
    assert bad.tolist() == [False] * 16 + [True] * 4
    assert (images.amax((1, 2, 3)) == bad).all()


def test_without_shifts_there_is_no_head_to_train():
    records = []
    settings = build(settings_of("surprisal"), {"width": 16, "shifts": "none"})
    torch.manual_seed(0)
    method = Surprisal(settings, (3, 28, 28))
    optimizers = method.optimizers("train")
    records.append(method.step(torch.rand(6, 3, 28, 28), optimizers, 0.5))
    assert "head" not in records[0]
    assert "separation" not in records[0]
    turning = Surprisal(build(settings_of("surprisal"), {"width": 16, "shifts": "rotations"}), (3, 28, 28))
    assert turning.step(torch.rand(6, 3, 28, 28), turning.optimizers("train"), 0.5).keys() > records[0].keys()


def test_the_weights_of_its_terms_matter():
    """A weight of the third term or of the head that is ignored would leave the loss unchanged."""
    losses = {}
    for name, change in {
        "as it is": {},
        "gamma": {"gamma": 50.0},
        "head": {"head": 50.0},
        "beta": {"beta": 50.0},
    }.items():
        torch.manual_seed(0)
        method = Surprisal(build(settings_of("surprisal"), {"width": 16, **change}), (3, 28, 28))
        losses[name] = method.step(torch.rand(6, 3, 28, 28), method.optimizers("train"), 0.5)["loss"].item()
    assert len(set(losses.values())) == 4
    assert losses["head"] > losses["as it is"] + 10  # 49 times −log p of about log 4
    assert losses["beta"] > losses["as it is"]


def test_size_and_colour_reach_the_score():
    one = fitted()
    image = gradients(1, seed=3)
    assert one.score(image) == pytest.approx(one.score(np.repeat(image[..., None], 3, -1)))
    enlarged = np.array(Image.fromarray(image[0]).resize((56, 56), Image.Resampling.NEAREST))[None]
    assert one.score(enlarged)[0] < one.score(np.rot90(image, 1, (1, 2)).copy())[0]
