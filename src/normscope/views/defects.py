"""Self-made defects: spots and scratches of several fillings, drawn into normal images, and where they are."""

import math
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

TIMES = 4  # defects in an image
FAINTEST = 0.4  # share of its filling that a defect has at least
FADING = 0.03  # of the shorter side: over how much an edge fades, at most
VISIBLE = 0.08  # change of a pixel, of a range of 2, below which it is none
BLUR = 9  # pixels


def defective(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Float images [n, c, h, w] with a few defects each, the pixels that they changed, bool [n, h, w], and which of two
    families the fillings of each image are from, [n]: so what learnt from one family can be tried on the other.

    As in methods that learn from such images (CutPaste, Li et al. 2021; DRÆM, Zavrtanik et al. 2021), a shape and a
    filling are drawn for each defect: a spot with an irregular edge or a bent scratch, filled with another part of the
    image, the image moved a little, one of its colours, something brighter or darker, a blur or noise. Half of the
    edges fade, and the filling is laid over the image with an opacity of its own: real defects are often faint.
    """
    result, family = images.clone(), torch.randint(len(FAMILIES), (len(images),))
    for image, changed, kind in zip(images, result, family.tolist(), strict=True):
        fillings = FAMILIES[kind]
        for _ in range(TIMES):
            shape, filling = SHAPES[number(len(SHAPES))], fillings[number(len(fillings))]
            opacity = uniform(FAINTEST, 1) * fading(shape(*image.shape[1:])).to(image)
            rows, columns = extent(opacity > 0)  # a small part of the image
            part, filled = changed[:, rows, columns], filling(image).expand_as(image)[:, rows, columns]
            part += opacity[rows, columns] * (filled - part)
    return result, (result - images).abs().amax(1) > VISIBLE, family.to(images.device)


def fading(inside: Tensor) -> Tensor:
    """bool [h, w] → float, 1 at the most; half of the time with an edge that fades."""
    edge = 2 * number(2 + int(FADING * min(inside.shape))) + 1
    if number(2) or not inside.any():
        return inside.float()
    rows, columns = extent(inside, margin=edge)
    faded = inside.float()
    faded[rows, columns] = box_blur(faded[None, rows, columns], edge)[0]
    return faded / faded.amax()


def extent(inside: Tensor, margin: int = 0) -> tuple[slice, slice]:
    """Rows and columns around all that is true in [h, w], with a margin where there is room for it."""
    rows, columns = (inside.any(axis).nonzero().flatten().tolist() for axis in (1, 0))
    if not rows:
        return slice(0), slice(0)
    top, left = (max(0, own[0] - margin) for own in (rows, columns))
    return slice(top, rows[-1] + margin + 1), slice(left, columns[-1] + margin + 1)


def spot(height: int, width: int) -> Tensor:
    """bool [h, w]: an ellipse with an irregular edge, up to a quarter of the shorter side across."""
    along, across = placed(height, width)
    radius = log_uniform(0.02, 0.12) * min(height, width)
    rough = F.interpolate(torch.randn(1, 1, 8, 8), (height, width), mode="bilinear", align_corners=False)[0, 0]
    return (along / radius).square() + (across / (radius * uniform(0.4, 1))).square() < 1 + rough


def scratch(height: int, width: int) -> Tensor:
    """bool [h, w]: a thin curve with a bend and a wave, up to half the shorter side long."""
    along, across = placed(height, width)
    half = log_uniform(0.03, 0.25) * min(height, width)
    thickness = max(0.7, log_uniform(0.003, 0.012) * min(height, width))
    curve = uniform(-0.5, 0.5) / half * along.square() + 0.1 * half * (along * (uniform(2, 8) / half)).sin()
    return (along.abs() < half) & ((across - curve).abs() < thickness)


def placed(height: int, width: int) -> tuple[Tensor, Tensor]:
    """Coordinates of every pixel, [h, w], in a frame with a random origin and direction."""
    y = torch.arange(height)[:, None] - uniform(0.05, 0.95) * height
    x = torch.arange(width) - uniform(0.05, 0.95) * width
    angle = uniform(0, math.pi)
    return x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)


def elsewhere(image: Tensor) -> Tensor:
    """The image [c, h, w] moved: what is pasted comes from another part of it."""
    return image.roll((1 + number(image.shape[1]), 1 + number(image.shape[2])), (1, 2))


def displaced(image: Tensor) -> Tensor:
    """The image moved a little, as a part of it that is out of place."""
    moved = (max(1, int(log_uniform(0.02, 0.1) * side)) * (1 - 2 * number(2)) for side in image.shape[1:])
    return image.roll(tuple(moved), (1, 2))


def colour(image: Tensor) -> Tensor:
    """One of the image's own colours."""
    return image[:, number(image.shape[1]), number(image.shape[2])][:, None, None]


def shade(image: Tensor) -> Tensor:
    """Brighter or darker."""
    return (image + uniform(0.5, 2) * (1 - 2 * number(2)) * contrast(image)).clamp(-1, 1)


def blur(image: Tensor) -> Tensor:
    return box_blur(image, BLUR)


def noise(image: Tensor) -> Tensor:
    return (image + torch.randn(image.shape[1:]).to(image) * uniform(0.5, 1) * contrast(image)).clamp(-1, 1)


SHAPES = (spot, scratch)
FAMILIES = ((elsewhere, colour, blur), (displaced, shade, noise))


def box_blur(image: Tensor, width: int) -> Tensor:
    """[c, h, w]: twice the mean over so many pixels, an odd number, each way; beyond the image all is zero.

    Sums of the image moved by each number of pixels: avg_pool2d takes ten times as long.
    """
    half = width // 2
    for axis, margin in ((2, (half, half)), (1, (0, 0, half, half))) * 2:
        padded, size = F.pad(image, margin), image.shape[axis]
        image = reduce(torch.add, (padded.narrow(axis, place, size) for place in range(width))) / width
    return image


def contrast(image: Tensor) -> Tensor:
    return image.std() + VISIBLE


def number(below: int) -> int:
    return int(torch.randint(below, ()))


def uniform(low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand(()))


def log_uniform(low: float, high: float) -> float:
    return math.exp(uniform(math.log(low), math.log(high)))
