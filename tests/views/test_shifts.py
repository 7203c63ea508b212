import pytest
import torch

from normscope.training.randomness import seeded
from normscope.views import shifts
from normscope.views.shifts import (
    cut_paste,
    noise,
    patches2,
    patches3,
    permuted_patches,
    quarter_turn,
    rotation,
    rotations,
)

SHIFTS = [getattr(shifts, name) for name in shifts.__all__]


def images(n, channels, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(n, channels, size, size, generator=generator) - 1


def numbered(n, height, width):
    """Every pixel has a value of its own, its number; the second channel has the negative."""
    number = torch.arange(float(height * width)).view(height, width)
    return torch.stack([number, -number]).repeat(n, 1, 1, 1)


@pytest.mark.parametrize(("channels", "size", "dtype"), [(1, 28, torch.float32), (3, 33, torch.float64)])
@pytest.mark.parametrize("shift", SHIFTS)
def test_shape_type_and_range_are_kept_and_the_input_left_alone(shift, channels, size, dtype):
    x = images(5, channels, size).to(dtype)
    before = x.clone()
    with seeded(0):
        y = shift(x)
    assert y.shape == x.shape
    assert y.dtype == dtype
    assert y.abs().max() <= 1
    assert torch.equal(x, before)
    y.zero_()
    assert torch.equal(x, before)


@pytest.mark.parametrize("shift", SHIFTS)
def test_no_image_is_left_as_it_was(shift):
    x = images(1, 1, 16).repeat(2000, 1, 1, 1)
    with seeded(0):
        y = shift(x)
    assert (x != y).any(3).any(2).all()


@pytest.mark.parametrize("shift", SHIFTS)
def test_copies_of_one_image_are_shifted_differently_and_by_the_seed(shift):
    x = images(1, 3, 32).repeat(32, 1, 1, 1)
    results = []
    for seed in (1, 1, 2):
        with seeded(seed):
            results.append(shift(x))
    assert not all(torch.equal(results[0][0], other) for other in results[0])
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


def test_rotations_are_exact_and_undone_by_the_opposite_turn():
    x = images(2, 3, 33)
    turned = rotations(x)
    assert len(turned) == 4
    assert torch.equal(turned[0], x)
    last = 32
    assert turned[1][0, 0, last - 5, 3] == x[0, 0, 3, 5]  # row 3, column 5, turned counter-clockwise
    for turns, y in enumerate(turned):
        assert torch.equal(rotations(y)[-turns % 4], x)


@pytest.mark.parametrize(("shift", "turns"), [(rotation, [1, 2, 3]), (quarter_turn, [1, 3])])
def test_a_turn_is_each_of_its_own_equally_often(shift, turns):
    x = images(1, 1, 8)
    with seeded(0):
        y = shift(x.repeat(3000, 1, 1, 1))
    kinds = torch.stack([(y == other).all(3).all(2).all(1) for other in rotations(x)])
    assert kinds.any(0).all()
    share, counts = 1 / len(turns), kinds.sum(1).tolist()
    for turn, count in enumerate(counts):
        expected, spread = (3000 * share, (3000 * share * (1 - share)) ** 0.5) if turn in turns else (0, 0)
        assert count == pytest.approx(expected, abs=4 * spread)


def cells(image, grid):
    """The patches of one image, as lists of numbers, in reading order."""
    height, width = (side // grid for side in image.shape[-2:])
    return [
        image[:, row * height : (row + 1) * height, column * width : (column + 1) * width].flatten().tolist()
        for row in range(grid)
        for column in range(grid)
    ]


@pytest.mark.parametrize(("shift", "grid", "size"), [(patches2, 2, 33), (patches3, 3, 32)])
def test_patches_are_the_same_ones_in_another_order(shift, grid, size):
    x = numbered(20, size, size)
    with seeded(0):
        y = shift(x)
    for before, after in zip(x, y, strict=True):
        assert sorted(cells(before, grid)) == sorted(cells(after, grid))
        assert cells(before, grid) != cells(after, grid)
    rest = size // grid * grid
    assert torch.equal(x[:, :, rest:], y[:, :, rest:])
    assert torch.equal(x[:, :, :, rest:], y[:, :, :, rest:])


def test_patches_of_an_oblong_image_are_permuted_whole():
    (x,) = numbered(1, 9, 13)
    with seeded(0):
        (y,) = permuted_patches(x[None], 2)
    assert sorted(cells(x, 2)) == sorted(cells(y, 2))
    assert torch.equal(x[:, 8:], y[:, 8:])
    assert torch.equal(x[:, :, 12:], y[:, :, 12:])


def test_quarters_take_all_23_other_orders_and_never_their_own():
    x = numbered(3000, 2, 2)[:, :1]
    with seeded(0):
        orders = {tuple(order) for order in patches2(x).flatten(1).tolist()}
    assert len(orders) == 23
    assert (0, 1, 2, 3) not in orders


@pytest.mark.parametrize(("height", "width"), [(28, 28), (32, 47)])
def test_cut_paste_copies_one_whole_rectangle_from_elsewhere(height, width):
    x = numbered(400, height, width)
    with seeded(0):
        y = cut_paste(x)
    assert torch.equal(y[:, 1], -y[:, 0])  # channels stay together
    sizes = []
    for image in y[:, 0].long():
        row, column = (image != x[0, 0]).nonzero(as_tuple=True)
        top, left, bottom, right = row.min(), column.min(), row.max() + 1, column.max() + 1
        # Every value is a place: moved by the same distance everywhere in the rectangle, and nowhere else.
        moved = (image - x[0, 0].long())[top:bottom, left:right]
        assert (moved == moved[0, 0]).all()
        assert len(row) == moved.numel()
        assert image[top, left] % width + (right - left) <= width  # does not run over the right edge
        sizes.append((int(bottom - top), int(right - left)))
    for side, whole in zip(zip(*sizes, strict=True), (height, width), strict=True):
        assert 0.2 * whole <= min(side) < 0.2 * whole + 1
        assert 0.5 * whole - 1 < max(side) <= 0.5 * whole
    area = [h * w / (height * width) for h, w in sizes]
    assert min(area) >= 0.04
    assert max(area) <= 0.25


def test_cut_paste_reaches_every_edge_to_cut_and_to_paste():
    x = numbered(1000, 28, 28)
    with seeded(0):
        y = cut_paste(x)[:, 0]
    changed = y != x[:, 0]
    for edge in (changed[:, 0], changed[:, -1], changed[:, :, 0], changed[:, :, -1]):
        assert edge.any()
    assert set(y[changed].tolist()) == set(range(28 * 28))


def test_cut_paste_can_take_any_row_to_any_other():
    x = numbered(2000, 4, 4)[:, 0] // 4  # the number of the row
    with seeded(0):
        y = cut_paste(x[:, None])[:, 0]
    pairs = {(int(row), int(old)) for row, old in torch.stack([x, y], 3).flatten(0, 2).unique(dim=0)}
    assert pairs == {(row, old) for row in range(4) for old in range(4)}
    alone = y[((y != x).any(2).sum(1) == 1)]  # rectangles one row high
    assert (alone[:, 0] == 3).any()
    assert (alone[:, 3] == 0).any()


def test_noise_has_a_strength_of_its_own_for_each_image():
    with seeded(0):
        y = noise(torch.zeros(400, 1, 40, 40))
    spread = y.std((1, 2, 3))
    assert spread.min() == pytest.approx(0.2, abs=0.03)
    clipped = torch.randn(10**5, generator=torch.Generator().manual_seed(0)).clamp(-1, 1).std().item()
    assert spread.max() == pytest.approx(clipped, abs=0.05)
    assert y.abs().max() == 1
    assert y.mean().abs() < 0.01
