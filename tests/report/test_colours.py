import numpy as np
import pytest

from normscope.report.colours import HOTTEST, OUTLINE, SHADOW, on_scale, opacity, palette

# Viénot, Brettel and Mollon 1999: linear RGB as a dichromat sees it.
DEUTERANOPE = np.array([(0.29275, 0.70725, 0), (0.29275, 0.70725, 0), (-0.02234, 0.02234, 1)])
EVERYBODY = np.eye(3)
PROTANOPE = np.array([(0.11238, 0.88762, 0), (0.11238, 0.88762, 0), (0.00401, -0.00401, 1)])


def luminance(colours: np.ndarray, seen_by: np.ndarray) -> np.ndarray:
    linear = (colours[:, :3] / 255) ** 2.2
    return linear @ seen_by.T @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("seen_by", [EVERYBODY, DEUTERANOPE, PROTANOPE])
def test_hotter_is_lighter_for_everybody(seen_by):
    colours = palette(64)[:64]
    assert (np.diff(luminance(colours, seen_by)) > 0).all()


def test_what_is_usual_is_left_as_it_is():
    assert (opacity(on_scale([0.0, 0.1, 0.25])) == 0).all()
    assert opacity(on_scale([0.5]))[0] < 0.25
    assert opacity(on_scale([1.0, 5.0])) == pytest.approx([0.65, 0.65])
    assert (palette(16)[:2, 3] == 0).all()


def test_the_scale_is_even_up_to_1_and_logarithmic_above():
    assert on_scale([-1, 0, 0.5, 1, HOTTEST**0.5, HOTTEST, 99]) == pytest.approx([0, 0, 0.25, 0.5, 0.75, 1, 1])


def test_a_palette_ends_with_the_outline():
    colours = palette(14)
    assert colours.shape == (16, 4)
    assert colours.dtype == np.uint8
    assert colours[OUTLINE].tolist() == [255, 255, 255, 255]
    assert colours[SHADOW][:3].tolist() == [0, 0, 0]
