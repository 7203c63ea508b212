from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope.benchmark import heat
from normscope.benchmark.heat import heat_metrics, read_mask
from normscope.errors import DatasetError, ImageError
from normscope.images import decoding
from normscope.images.store import from_arrays


class Knows:
    """Says that an image is surprising where it is bright."""

    def __init__(self, size: tuple[int, int] = (64, 64)) -> None:
        self.size = size

    def heat_maps(self, pixels, size):
        return np.stack([np.array(Image.fromarray(one[0]).resize(size[::-1]), float) for one in pixels[:]])


@pytest.fixture
def masked(tmp_path) -> tuple[np.ndarray, list[Path | None], np.ndarray]:
    """A normal image, an anomaly with its mask, and an anomaly that nobody has drawn a mask for."""
    images = np.zeros((3, 64, 64), np.uint8)
    images[1, :16, :16] = 255
    images[2] = 255
    Image.fromarray(images[1]).save(tmp_path / "1.png")
    return images, [None, tmp_path / "1.png", None], np.array([False, True, True])


def test_maps_that_are_right_are_perfect_and_unknown_masks_do_not_count(masked):
    images, masks, is_anomaly = masked
    found = heat_metrics(Knows(), from_arrays(images, (64, 64)), masks, is_anomaly)
    assert found["pixel_auroc"] > 0.999  # but for the rim, blurred where maps are enlarged
    assert found["pro"] > 0.98
    wrong = heat_metrics(Knows(), from_arrays(255 - images, (64, 64)), masks, is_anomaly)
    assert wrong["pixel_auroc"] < 0.001


def test_rectangles_are_compared_at_their_own_shape(tmp_path, monkeypatch):
    shapes = []
    monkeypatch.setattr(heat, "pro", lambda maps, masks: shapes.append((maps.shape, masks.shape)) or 0.0)
    images = np.zeros((2, 60, 150), np.uint8)
    images[1, 40:, 100:] = 255
    Image.fromarray(images[1]).save(tmp_path / "1.png")
    pixels = from_arrays(images, (40, 100))
    found = heat_metrics(Knows((40, 100)), pixels, [None, tmp_path / "1.png"], np.array([False, True]))
    assert shapes == [((2, 256, 640), (2, 256, 640))]
    assert found["pixel_auroc"] > 0.999


def test_masks_are_squashed_like_images_and_grey_values_decided_at_127(tmp_path):
    mask = np.zeros((40, 80), np.uint8)
    mask[:20] = 128
    mask[20:] = 127
    Image.fromarray(mask).save(tmp_path / "m.png")
    found = read_mask(tmp_path / "m.png", (heat.SIDE, heat.SIDE))
    assert found.shape == (heat.SIDE, heat.SIDE)
    assert found[: heat.SIDE // 2 - 8].all()
    assert not found[heat.SIDE // 2 + 8 :].any()
    assert not read_mask(None, (4, 7)).any()
    assert read_mask(None, (4, 7)).shape == (4, 7)


def test_a_broken_mask_is_named(tmp_path):
    (tmp_path / "m.png").write_bytes(b"nothing")
    with pytest.raises(DatasetError, match=r"the mask .*m\.png cannot be read: not a readable"):
        read_mask(tmp_path / "m.png", (8, 8))


def test_a_mask_that_nobody_vouches_for_is_decoded_within_limits(tmp_path, monkeypatch):
    """By a process that the system ends, as images are: here at the first file."""
    monkeypatch.setattr(decoding, "decode_in_worker", refused)
    Image.fromarray(np.zeros((40, 80), np.uint8)).save(tmp_path / "m.tiff")
    with pytest.raises(DatasetError, match=r"m\.tiff cannot be read: too slow"):
        read_mask(tmp_path / "m.tiff", (8, 8))


def refused(*given, **options):
    raise ImageError("too slow")
