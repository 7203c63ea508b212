import numpy as np
import pytest

from normscope.model import Scored
from normscope.report.overlay import cut, overlay
from normscope.report.overlays import caption
from normscope.report.picture import enlarged, indexed_png, stretched, text_width, within


@pytest.mark.parametrize("shape", [(300, 500), (700, 220), (1, 400)])
def test_the_image_is_beside_its_map_at_its_own_size(shape):
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), np.uint8)
    picture = overlay(pixels, np.zeros((4, 4)), "a.png")
    height, width = shape
    unit = max(max(shape) // 50, 13)
    assert (picture[unit : unit + height, unit : unit + width] == pixels).all()
    map = picture[unit : unit + height, 2 * unit + width :][:, :width]
    assert (map == map[..., :1]).all()  # nothing hot: the image in grey
    assert picture.shape[1] >= 2 * width + 3 * unit


def test_a_small_image_is_enlarged_by_a_whole_factor():
    pixels = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    large = enlarged(pixels, 8)
    assert large.shape == (9, 9, 3)
    assert (large[::3, ::3] == pixels).all()
    assert enlarged(pixels, 3) is not None
    assert enlarged(pixels, 2).shape == pixels.shape


@pytest.mark.parametrize(("shape", "small"), [((3000, 2000), (150, 100)), ((2, 4000), (1, 150)), ((150, 9), (150, 9))])
def test_a_large_image_keeps_its_aspect(shape, small):
    assert within(np.zeros((*shape, 3), np.uint8), 150).shape == (*small, 3)


def test_a_long_caption_loses_its_beginning():
    text = "a folder/" * 40 + "name.png"
    short = cut(text, 13, 200)
    assert short.startswith("...")
    assert short.endswith("name.png")
    assert text_width(short, 13) <= 200
    assert cut("name.png", 13, 200) == "name.png"


def test_stretching_is_bilinear():
    assert stretched(np.array([[0.0, 1.0]]), (1, 4))[0] == pytest.approx([0, 0.25, 0.75, 1])


def test_an_indexed_png_has_four_bits_for_a_pixel():
    from normscope.report.colours import palette

    data = indexed_png(np.arange(16, dtype=np.uint8).reshape(4, 4), palette(14))
    assert data[24:26] == bytes([4, 3])  # bit depth, and the colour type of a palette


@pytest.mark.parametrize(("anomalous", "said"), [(True, "   p 0.010   anomalous"), (False, "   p 0.010   normal")])
def test_the_caption_has_name_score_and_verdict(anomalous, said):
    row = {"path": "a.png", "score": 3.25, "p_value": 0.01, "anomalous": anomalous}
    assert caption(Scored(row, None)) == f"a.png   score 3.25{said}"
    uncalibrated = Scored(row | {"p_value": None, "anomalous": None}, None)
    assert caption(uncalibrated) == "a.png   score 3.25"
