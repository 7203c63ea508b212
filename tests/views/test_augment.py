import math

import pytest
import torch

from normscope.training.randomness import seeded
from normscope.views.augment import Recipe, blur, colour_matrix, crop_and_flip, random_view, recolour

LUMA = torch.tensor([0.299, 0.587, 0.114])
NOTHING = Recipe(smallest_area=1, flip=0, colour=0, grey=0, blur=0)
EVERYTHING = Recipe(smallest_area=0.1, flip=0.5, colour=1, grey=0.2, blur=0.5)


def images(n, channels, size, largest=1.0, seed=0):
    """Noise, uniform in [-largest, largest]."""
    generator = torch.Generator().manual_seed(seed)
    return largest * (2 * torch.rand(n, channels, size, size, generator=generator) - 1)


def copies(n, channels, size, largest=1.0):
    """One image, n times."""
    return images(1, channels, size, largest).repeat(n, 1, 1, 1)


def luma(x):
    return torch.einsum("c,nchw->nhw", LUMA, x)


def ramps(n, size):
    """The position of every pixel: columns in the first channel and rows in the second, from -1 to 1 edge to edge."""
    place = (torch.arange(size) + 0.5) / size * 2 - 1
    return torch.stack([place.expand(size, size), place[:, None].expand(size, size)]).repeat(n, 1, 1, 1)


def crops(smallest_area, n=2000, size=33):
    """Signed width, height and centre of n crops, read off the positions that they show; size is odd: it has a middle.

    Positions are linear but where the outermost half pixel is reflected, so the middle of the view tells them.
    """
    with seeded(0):
        view = crop_and_flip(ramps(n, size), smallest_area, flip=0.5)
    m = size // 2
    width, height = (view[:, 0, m, m + 1] - view[:, 0, m, m - 1]), (view[:, 1, m + 1, m] - view[:, 1, m - 1, m])
    return width * size / 4, height * size / 4, view[:, :, m, m]


def lines(x, y):
    """Slope and offset of y [n, p] as a line in x [n, p], after checking that it is one."""
    x0, y0 = x.mean(1, keepdim=True), y.mean(1, keepdim=True)
    slope = ((x - x0) * (y - y0)).sum(1, keepdim=True) / (x - x0).square().sum(1, keepdim=True)
    offset = y0 - slope * x0
    torch.testing.assert_close(slope * x + offset, y, atol=1e-4, rtol=0)
    return slope[:, 0], offset[:, 0]


@pytest.mark.parametrize(("channels", "size"), [(1, 28), (3, 33), (3, 64)])
def test_shape_type_and_range_are_kept(channels, size):
    x = images(4, channels, size)
    before = x.clone()
    with seeded(size):
        view = random_view(x, EVERYTHING)
    assert view.shape == x.shape
    assert view.dtype == x.dtype
    assert view.abs().max() <= 1
    assert view.isfinite().all()
    assert torch.equal(x, before)


def test_white_stays_in_range_under_blur():
    with seeded(0):
        view = random_view(torch.ones(64, 3, 33, 33), Recipe(blur=1))
    assert view.abs().max() <= 1


@pytest.mark.parametrize("recipe", [Recipe(), EVERYTHING])
def test_copies_of_one_image_get_different_views(recipe):
    with seeded(0):
        view = random_view(copies(8, 3, 32), recipe)
    assert all(not torch.allclose(view[i], view[j], atol=0.01) for i in range(8) for j in range(i))


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(0.3, flip=0, colour=0, grey=0),
        Recipe(1, flip=0.5, colour=0, grey=0),
        Recipe(1, flip=0, colour=0.5, grey=0),
        Recipe(1, flip=0, colour=0, grey=0.5),
        Recipe(1, flip=0, colour=0, grey=0, blur=0.5),
    ],
    ids=["crop", "flip", "colour", "grey", "blur"],
)
def test_every_part_is_drawn_for_each_image(recipe):
    with seeded(0):
        view = random_view(copies(16, 3, 32), recipe)
    assert not torch.allclose(view, view[:1].expand_as(view), atol=0.01)


@pytest.mark.parametrize("size", [28, 33])
def test_zero_strength_is_the_identity(size):
    x = images(20, 3, size)
    with seeded(0):
        torch.testing.assert_close(random_view(x, NOTHING), x, atol=1e-4, rtol=0)


def test_autocast_costs_the_views_no_precision():
    x = images(3, 3, 32)
    with torch.autocast("cpu", torch.bfloat16):
        view = random_view(x, NOTHING)
        blurred = random_view(x, Recipe(blur=1))
    torch.testing.assert_close(view, x, atol=1e-4, rtol=0)
    assert blurred.dtype == torch.float32


def test_seed_decides_the_view():
    x, views = images(4, 3, 32), []
    for seed in (1, 1, 2):
        with seeded(seed):
            views.append(random_view(x, EVERYTHING))
    assert torch.equal(views[0], views[1])
    assert not torch.allclose(views[0], views[2], atol=0.1)


def test_certain_flip_is_the_mirror_image():
    x = images(4, 3, 33)
    torch.testing.assert_close(crop_and_flip(x, smallest_area=1, flip=1), x.flip(3), atol=1e-4, rtol=0)


def test_half_of_the_images_are_mirrored_and_none_is_upside_down():
    width, height, _ = crops(0.3)
    assert (width < 0).float().mean() == pytest.approx(0.5, abs=4 * 0.5 / 2000**0.5)
    assert (height > 0).all()


@pytest.mark.parametrize("smallest_area", [0.3, 0.95])
def test_crops_have_the_area_and_the_aspect_ratio_that_were_asked_for(smallest_area):
    width, height, _ = crops(smallest_area)
    area, ratio = width.abs() * height, width.abs() / height
    spread = (1 - smallest_area) / 12**0.5
    assert smallest_area - 1e-4 <= area.min() <= smallest_area + 0.05 * spread
    assert 1 - 0.05 * spread <= area.max() <= 1 + 1e-4
    assert area.mean() == pytest.approx((1 + smallest_area) / 2, abs=4 * spread / 2000**0.5)
    assert ratio.min() >= 3 / 4 - 1e-3
    assert ratio.max() <= 4 / 3 + 1e-3
    assert ratio.log().mean() == pytest.approx(0, abs=4 * ratio.log().std().item() / 2000**0.5)


def test_crops_lie_inside_the_image_and_reach_every_edge():
    width, height, centre = crops(0.3)
    for side, place in ((width.abs(), centre[:, 0]), (height, centre[:, 1])):
        room = 1 - side
        assert (place.abs() <= room + 1e-4).all()
        placed = (place / room)[room > 0.1]
        assert placed.min() < -0.95
        assert placed.max() > 0.95
        assert placed.mean() == pytest.approx(0, abs=4 * 3**-0.5 / len(placed) ** 0.5)


@pytest.mark.parametrize("channels", [1, 3])
def test_brightness_and_contrast_are_those_of_torchvision(channels):
    """Both factors are read off the affine map of the pixels, then applied in [0, 1] as torchvision does.

    Another centre than black for brightness or than the mean for contrast would move the factors out of bounds.
    """
    strength, n = 0.5, 2000
    # Grey, and too dull for anything to be clipped; each with a mean of its own.
    x = (images(n, 1, 8, largest=0.2) + torch.linspace(-0.2, 0.2, n)[:, None, None, None]).expand(-1, channels, -1, -1)
    with seeded(0):
        y = recolour(x, strength, grey=0)
    slope, offset = lines(x.flatten(1), y.flatten(1))
    mean = x.mean((1, 2, 3))
    brightness = (offset + 1 + slope * mean) / (1 + mean)
    contrast = slope / brightness

    by_brightness = brightness[:, None] * (x.flatten(1) + 1) / 2
    by_contrast = contrast[:, None] * by_brightness + (1 - contrast[:, None]) * by_brightness.mean(1, keepdim=True)
    torch.testing.assert_close(2 * by_contrast - 1, y.flatten(1), atol=1e-4, rtol=0)

    jittered = (brightness - 1).abs() > 1e-4
    assert jittered.float().mean() == pytest.approx(0.8, abs=4 * (0.8 * 0.2 / n) ** 0.5)
    for factor in (brightness[jittered], contrast[jittered]):
        assert factor.min() == pytest.approx(1 - 0.8 * strength, abs=0.01)
        assert factor.max() == pytest.approx(1 + 0.8 * strength, abs=0.01)
        assert factor.mean() == pytest.approx(1, abs=4 * 0.8 * strength / (3 * 0.8 * n) ** 0.5)
    together = torch.corrcoef(torch.stack([brightness[jittered], contrast[jittered]]))
    assert together[0, 1] == pytest.approx(0, abs=4 / n**0.5)


def test_saturation_and_hue_leave_luma_alone():
    x = copies(500, 3, 8, largest=0.1)  # too dull to be clipped
    with seeded(0):
        y = recolour(x, 0.5, grey=0.2)
    slope, offset = lines(luma(x).flatten(1), luma(y).flatten(1))
    # What brightness and contrast do to luma is a line; anything that colour did to it would not be.
    brightness = (offset + 1 + slope * x.mean((1, 2, 3))) / (1 + x.mean((1, 2, 3)))
    assert (brightness >= 0.6 - 1e-3).all()
    assert (brightness <= 1.4 + 1e-3).all()


def test_saturation_and_hue_are_drawn_between_their_bounds():
    n, strength = 2000, 0.5
    x = copies(n, 3, 2, largest=0.1)
    with seeded(0):
        y = recolour(x, strength, grey=0)
    slope, _ = lines(luma(x).flatten(1), luma(y).flatten(1))
    change = chroma(y)[:, 0] / chroma(x)[:, 0] / slope
    jittered = change.angle().abs() > 1e-3
    assert change[jittered].abs().min() == pytest.approx(0.6, abs=0.01)
    assert change[jittered].abs().max() == pytest.approx(1.4, abs=0.01)
    assert change.angle().min() == pytest.approx(-0.2 * math.pi * 2 * strength, abs=0.01)
    assert change.angle().max() == pytest.approx(0.2 * math.pi * 2 * strength, abs=0.01)


def chroma(x):
    """I + iQ of every pixel, [n, p]; NTSC's coefficients to three decimals."""
    i = torch.einsum("c,nchw->nhw", torch.tensor([0.596, -0.274, -0.322]), x)
    q = torch.einsum("c,nchw->nhw", torch.tensor([0.211, -0.523, 0.312]), x)
    return torch.complex(i, q).flatten(1)


def test_saturation_alone_is_that_of_torchvision():
    x = images(1, 3, 8)
    (matrix,) = colour_matrix(torch.tensor([1.7]), torch.zeros(1))
    expected = 1.7 * x + (1 - 1.7) * luma(x)[:, None]
    torch.testing.assert_close(torch.einsum("ij,njhw->nihw", matrix, x), expected, atol=1e-5, rtol=0)


def test_hue_turns_the_colour_plane():
    x = images(1, 3, 8)
    (matrix,) = colour_matrix(torch.ones(1), torch.tensor([0.4]))
    turned = torch.einsum("ij,njhw->nihw", matrix, x)
    torch.testing.assert_close(chroma(turned), chroma(x) * torch.exp(torch.tensor(0.4j)), atol=1e-5, rtol=0)
    torch.testing.assert_close(luma(turned), luma(x), atol=1e-5, rtol=0)


def test_grey_makes_the_channels_equal_and_keeps_luma():
    x = images(8, 3, 16)
    grey = recolour(x, strength=0, grey=1)
    torch.testing.assert_close(grey, luma(x)[:, None].expand_as(x), atol=1e-5, rtol=0)


def test_grey_holds_for_jittered_images_too_and_for_the_share_asked_for():
    x = copies(2000, 3, 4, largest=0.1)
    with seeded(0):
        y = recolour(x, strength=0.5, grey=0.2)
    equal = (y - y.mean(1, keepdim=True)).abs().amax((1, 2, 3)) < 1e-5
    assert equal.float().mean() == pytest.approx(0.2, abs=4 * (0.2 * 0.8 / 2000) ** 0.5)


def test_colours_are_clipped_to_the_range():
    with seeded(0):
        y = recolour(images(200, 3, 8), strength=1, grey=0)
    assert y.max() == 1
    assert y.min() == -1


@pytest.mark.parametrize("size", [28, 64])
def test_blur_keeps_the_mean_and_lowers_the_variance(size):
    x = images(30, 3, size)
    with seeded(0):
        y = blur(x, chance=1)
    shrunk = y.var((1, 2, 3)) / x.var((1, 2, 3))
    # Reflection counts the pixels near an edge unevenly, so that the mean of noise moves a little.
    assert (y.mean((2, 3)) - x.mean((2, 3))).abs().max() < 0.03
    assert (shrunk <= 1).all()
    assert shrunk.max() > 3 * shrunk.min()
    assert shrunk.min() < 0.3
    flat = torch.full((2, 3, size, size), 0.4)
    torch.testing.assert_close(blur(flat, chance=1), flat)


def test_blur_is_a_gaussian_of_equal_width_in_both_directions():
    x = torch.zeros(500, 1, 33, 33, dtype=torch.float64)
    x[:, 0, 16, 16] = 1
    with seeded(0):
        y = blur(x, chance=1)[:, 0]
    torch.testing.assert_close(y, y.transpose(1, 2))
    torch.testing.assert_close(y, y.flip(2))
    fall = (y[:, 16, 16] / y[:, 16, 17]).log()  # 1 / 2σ²
    torch.testing.assert_close((y[:, 16, 16] / y[:, 16, 18]).log(), 4 * fall, rtol=1e-4, atol=1e-4)
    sigma = (2 * fall) ** -0.5
    assert sigma.min() == pytest.approx(0.1 * 2, abs=0.02)  # 33 pixels have twice 16 of them
    assert sigma.max() == pytest.approx(1.0 * 2, abs=0.02)


def test_blur_leaves_the_others_as_they_are():
    x = images(2000, 1, 16)
    before = x.clone()
    with seeded(0):
        y = blur(x, chance=0.3)
    touched = (x != y).any(3).any(2).any(1)
    assert touched.float().mean() == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / 2000) ** 0.5)
    assert torch.equal(x, before)
