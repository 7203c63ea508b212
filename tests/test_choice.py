import numpy as np
import pytest
from PIL import Image

from normscope import Detector
from normscope.choice import choose, resolved
from normscope.errors import SettingError
from normscope.intake import peek
from normscope.options import checked


def pictures(side, colour, n=12):
    values = np.random.default_rng(0).integers(0, 256, (n, side, side + 4, 3 if colour else 1), dtype=np.uint8)
    return np.ascontiguousarray(np.broadcast_to(values, (n, side, side + 4, 3)))


@pytest.mark.parametrize(
    ("side", "colour", "method"),
    [(28, False, "surprisal"), (32, True, "pretrained"), (200, False, "pretrained"), (200, True, "pretrained")],
)
def test_the_method_follows_from_what_the_images_are(side, colour, method):
    choice = choose(*peek(pictures(side, colour)), anomalies=False)
    assert choice.method == method
    assert "the images are" in choice.why


def test_of_small_grey_images_their_number_says_who_learns_and_whether_the_encoder_has_a_say():
    some = peek(pictures(28, False))[0]
    few, thousands, very_many = (choose(some, n, anomalies=False) for n in (400, 6000, 60_000))
    assert (few.method, few.settings) == ("surprisal", {"pretrained": "efficientnet-lite0"})
    assert (thousands.method, thousands.settings["pretrained"]) == ("base", "efficientnet-lite0")
    assert (very_many.method, very_many.settings) == ("base", {"score": "surprisal"})


@pytest.mark.parametrize(("side", "encoder"), [(32, "efficientnet-lite0"), (200, "efficientnet-lite2")])
def test_photographs_are_seen_through_a_larger_encoder_than_small_pictures(side, encoder):
    assert choose(*peek(pictures(side, True)), anomalies=False).settings == {"encoder": encoder}


def test_labelled_anomalies_need_a_method_that_learns_from_them():
    assert choose(*peek(pictures(200, True)), anomalies=True).method == "surprisal"


@pytest.mark.parametrize(
    ("size", "encoder"),
    [((28, 56), "efficientnet-lite0"), ((96, 56), "efficientnet-lite0"), ((80, 120), "efficientnet-lite2")],
)
def test_a_size_that_is_not_square_needs_a_method_that_takes_it(size, encoder):
    options, why = resolved(checked(size=size), pictures(28, False), anomalies=False)
    assert (options.method, why) == ("pretrained", "the size asked for is not a square")
    assert options.settings.encoder == encoder


def test_a_method_that_is_named_is_kept():
    options = checked("pca")
    assert resolved(options, pictures(28, False), anomalies=False) == (options, None)


def test_auto_has_no_settings_of_its_own():
    with pytest.raises(SettingError):
        checked("auto", settings={"beta": 1.0})


def test_the_card_says_why():
    detector = Detector(epochs=0, false_alarm_rate=None).fit(pictures(28, False, 20))
    assert detector.card["method"] == "surprisal"
    assert "small and grey" in detector.card["chosen"]
    assert Detector("pca", false_alarm_rate=None).fit(pictures(28, False, 20)).card["chosen"] is None


def test_broken_files_are_not_looked_at(tmp_path):
    (tmp_path / "a.png").write_text("no image")
    for number, image in enumerate(pictures(28, False)):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    some, images = peek(tmp_path)
    assert 0 < len(some) <= images == 13
    assert choose(some, images, anomalies=False).method == "surprisal"
