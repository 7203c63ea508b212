import numpy as np

from normscope.report.colours import palette
from normscope.report.layer import laid_over, layer

COLOURS = 20


def test_the_hot_region_is_outlined_and_nothing_else():
    heat = np.zeros((10, 10))
    heat[4:7, 4:7] = 10**0.5
    indices = layer(heat, (10, 10), COLOURS)
    inside = indices == COLOURS
    around = indices == COLOURS + 1
    assert np.argwhere(inside).min(0).tolist() == [4, 4]
    assert inside.sum() == 8  # the square of nine without its middle
    assert indices[5, 5] == 15  # three quarters of the scale
    assert around.sum() == 12
    assert (indices[~inside & ~around] > 0).sum() == 1


def test_a_cool_image_has_no_outline_and_keeps_its_look():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 6, 1), np.uint8).repeat(3, 2)
    indices = layer(np.full((2, 2), 0.2), (8, 6), COLOURS)
    assert (laid_over(pixels, indices, palette(COLOURS)) == pixels).all()


def test_heat_has_one_scale_whatever_the_other_places_have():
    cool, hot = (layer(np.array([[0.72, 0, 0, other]]), (1, 4), COLOURS) for other in (0.1, 9.0))
    assert cool[0, 0] == hot[0, 0] == 7
    assert layer(np.array([[0.72, -3.0]]), (1, 2), COLOURS)[0, 1] == 0


def test_the_map_is_stretched_over_the_whole_image():
    indices = layer(np.array([[0.12, 0.92]]), (5, 40), COLOURS)
    assert indices.shape == (5, 40)
    assert (np.diff(indices[0].astype(int)) >= 0).all()
    assert indices[0, 0] == 1
    assert indices[0, -1] == 9
