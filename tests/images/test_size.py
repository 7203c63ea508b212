import math
import random

import pytest

from normscope.images.size import LARGEST, Auto, squash_note, typical_aspect_ratio, typical_size

SQUARE, RECTANGLE = Auto(64), Auto(64, rectangles=True)


def test_a_square_is_the_median_of_the_shorter_sides():
    assert typical_size([(99, 30), (40, 99), (100, 200)], SQUARE) == (40, 40)
    assert typical_size([(40, 99), (51, 60)], SQUARE) == (45, 45)
    assert typical_size([], SQUARE) == typical_size([], RECTANGLE) == (64, 64)


@pytest.mark.parametrize("auto", [SQUARE, RECTANGLE])
@pytest.mark.parametrize(("side", "expected"), [(8, 28), (28, 28), (51, 51), (64, 64), (1000, 64)])
def test_square_images_stay_square(auto, side, expected):
    assert typical_size([(side, side)] * 4, auto) == (expected, expected)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((36, 52), (36, 52)),
        ((52, 36), (52, 36)),
        ((480, 640), (64, 85)),
        ((640, 480), (85, 64)),
        ((10, 14), (28, 39)),
        ((50, 150), (50, 150)),
        ((50, 151), (50, 150)),
        ((1, 5000), (28, 84)),
        ((5000, 1), (84, 28)),
    ],
)
def test_a_rectangle_has_the_aspect_ratio_of_the_images_up_to_three(shape, expected):
    assert typical_size([shape] * 3, RECTANGLE) == expected


def test_images_of_one_size_within_bounds_keep_it():
    for _ in range(500):
        shorter, ratio = random.randint(28, 64), random.uniform(1, 3)
        shape = (shorter, math.floor(shorter * ratio))
        assert typical_size([shape] * 3, RECTANGLE) == shape
        assert typical_size([shape[::-1]] * 2, RECTANGLE) == shape[::-1]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((2000, 6000), (341, 1023)), ((500, 1254), (408, 1023)), ((1254, 500), (1023, 408)), ((900, 900), (800, 800))],
)
def test_long_images_keep_their_shape_where_the_longer_side_reaches_the_largest_that_can_be_given(shape, expected):
    assert typical_size([shape], Auto(800, rectangles=True)) == expected
    assert max(expected) <= LARGEST


def test_the_typical_aspect_ratio_is_a_median_and_treats_both_orientations_alike():
    assert typical_aspect_ratio([(10, 20), (10, 30), (10, 1000)]) == pytest.approx(3)
    assert typical_aspect_ratio([(10, 20), (20, 10)]) == pytest.approx(1)
    shapes = [(10, 20), (30, 31), (70, 20), (9, 9)]
    turned = [shape[::-1] for shape in shapes]
    assert typical_aspect_ratio(shapes) == pytest.approx(1 / typical_aspect_ratio(turned))


@pytest.mark.parametrize(
    ("shape", "size", "said"),
    [
        (
            (40, 100),
            (64, 64),
            "the images are 2.5 times as wide as high and are squashed to 64x64 (height x width); do so",
        ),
        (
            (100, 40),
            (64, 64),
            "the images are 2.5 times as high as wide and are squashed to 64x64 (height x width); do so",
        ),
        ((64, 64), (64, 128), "the images are about square and are squashed to 64x128 (height x width); do so"),
        ((512, 640), (64, 64), None),  # 1.25 exactly
        ((512, 641), (64, 64), "the images are 1.25 times as wide as high"),
        ((28, 100), (28, 84), None),
        ((40, 100), (40, 100), None),
        ((4, 10), (40, 100), None),
    ],
)
def test_squashing_is_said_where_it_is_noticeable(shape, size, said):
    note = squash_note([shape] * 5, size, "do so")
    assert note is None if said is None else note.startswith(said)


@pytest.mark.parametrize(("unlike", "said"), [(0, False), (2, False), (3, True), (9, True)])
def test_images_unlike_the_others_are_said_if_they_are_many(unlike, said):
    shapes = [(60, 60)] * (20 - unlike) + [(60, 95)] * unlike
    note = squash_note(shapes, (60, 60), "")
    assert (note is not None) is said
    if note:
        assert note.startswith(f"{unlike} of 20 images are much wider or higher than the others")
        assert "crop them, or fit a model for each shape" in note
    nearly = [(60, 60)] * 10 + [(60, 89)] * 9
    assert squash_note(nearly, (60, 60), "") is None


def test_images_are_enlarged_within_bounds_and_small_ones_are_not():
    auto = Auto(448, rectangles=True, enlarge=1.5)
    assert typical_size([(200, 300)], auto) == (300, 450)
    assert typical_size([(400, 400)], auto) == (448, 448)
    assert typical_size([(64, 64)], auto) == (64, 64)
