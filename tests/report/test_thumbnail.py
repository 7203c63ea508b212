import numpy as np
import pytest

from normscope.images.reader import decode
from normscope.report.thumbnail import thumbnail

NOISE = np.random.default_rng(0).integers(0, 256, (900, 1200, 3), np.uint8)
HEAT = np.random.default_rng(0).uniform(0, 3, (28, 28))


@pytest.mark.parametrize("most", [1500, 2700, 40_000])
def test_even_noise_is_within_the_bytes(most):
    found = thumbnail(NOISE, HEAT, most)
    assert len(found.image) + len(found.heat) <= most
    assert found.width / found.height == pytest.approx(4 / 3, rel=0.05)
    assert decode(found.image).shape == (found.height, found.width)


def test_more_bytes_are_a_larger_picture():
    smooth = np.linspace(0, 255, 900 * 1200 * 3).reshape(900, 1200, 3).astype(np.uint8)
    widths = [thumbnail(smooth, None, most).width for most in (1500, 6000, 40_000)]
    assert widths == sorted(set(widths))
    assert widths[-1] == 640


def test_a_small_image_is_enlarged():
    found = thumbnail(NOISE[:8, :6], None, 40_000)
    assert (found.width, found.height) == (72, 96)
    assert found.heat is None


def test_the_heat_map_has_the_aspect_of_the_image():
    found = thumbnail(NOISE[:100, :400], np.zeros((4, 4)), 40_000)
    height, width = decode(found.heat).shape
    assert width / height == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("shape", [(1, 5000), (5000, 1), (1, 1)])
def test_any_shape(shape):
    found = thumbnail(np.zeros((*shape, 3), np.uint8), HEAT, 2000)
    assert min(found.width, found.height) >= 1
