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

Box = tuple[slice, slice]  # rows and columns


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
            box, inside = shape(*image.shape[1:])
            opacity, part = uniform(FAINTEST, 1) * fading(inside, min(image.shape[1:])).to(image), changed[:, *box]
            part += opacity * (filling(image, box) - part)
    return result, (result - images).abs().amax(1) > VISIBLE, family.to(images.device)


def fading(inside: Tensor, side: int) -> Tensor:
    """bool [h, w], in an image of that side → float, 1 at the most; half of the time with an edge that fades."""
    edge = 2 * number(2 + int(FADING * side)) + 1
    if number(2) or not inside.any():
        return inside.float()
    faded = box_blur(inside[None].float(), edge)[0]
    return faded / faded.amax()


def spot(height: int, width: int) -> tuple[Box, Tensor]:
    """An ellipse with an irregular edge, up to a quarter of the shorter side across: bool [h, w] of a box around it."""
    radius = log_uniform(0.02, 0.12) * min(height, width)
    box, along, across = placed(height, width, 2 * radius)
    rough = resized(torch.randn(8, 8), height, width, box)
    return box, (along / radius).square() + (across / (radius * uniform(0.4, 1))).square() < 1 + rough


def scratch(height: int, width: int) -> tuple[Box, Tensor]:
    """A thin curve with a bend and a wave, up to half the shorter side long: bool [h, w] of a box around it."""
    half = log_uniform(0.03, 0.25) * min(height, width)
    thickness = max(0.7, log_uniform(0.003, 0.012) * min(height, width))
    box, along, across = placed(height, width, 1.2 * half + thickness)
    curve = uniform(-0.5, 0.5) / half * along.square() + 0.1 * half * (along * (uniform(2, 8) / half)).sin()
    return box, (along.abs() < half) & ((across - curve).abs() < thickness)


def placed(height: int, width: int, reach: float) -> tuple[Box, Tensor, Tensor]:
    """A box of so many pixels around a random place, and room for an edge that fades; and the coordinates [h, w] of its
    pixels in a frame with that origin and a random direction."""
    down, right = uniform(0.05, 0.95) * height, uniform(0.05, 0.95) * width
    origin = slice(int(down), int(down)), slice(int(right), int(right))
    box = widened(origin, int(reach + 2 * FADING * min(height, width)) + 5)
    rows, columns = (torch.arange(side)[own] for side, own in zip((height, width), box, strict=True))
    y, x = rows[:, None] - down, columns - right
    angle = uniform(0, math.pi)
    return box, x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)


def resized(grid: Tensor, height: int, width: int, box: Box) -> Tensor:
    """The box in a grid [., .] that is resized to so many pixels."""
    rows, columns = (
        (2 * torch.arange(side)[own] + 1) / side - 1 for side, own in zip((height, width), box, strict=True)
    )
    at = torch.stack([columns.expand(len(rows), -1), rows[:, None].expand(-1, len(columns))], 2)
    return F.grid_sample(grid[None, None], at[None], padding_mode="border", align_corners=False)[0, 0]


def widened(box: Box, margin: int) -> Box:
    """By so many pixels each way, as far as there is room."""
    rows, columns = (slice(max(0, own.start - margin), own.stop + margin) for own in box)
    return rows, columns


def elsewhere(image: Tensor, box: Box) -> Tensor:
    """Another part of the image."""
    return moved(image, box, 1 + number(image.shape[1]), 1 + number(image.shape[2]))


def displaced(image: Tensor, box: Box) -> Tensor:
    """What is a little beside it, as a part that is out of place."""
    down, right = (max(1, int(log_uniform(0.02, 0.1) * side)) * (1 - 2 * number(2)) for side in image.shape[1:])
    return moved(image, box, down, right)


def moved(image: Tensor, box: Box, down: int, right: int) -> Tensor:
    """The box in an image [c, h, w] that was moved by so many pixels; what leaves it comes back on the other side."""
    sides = zip(box, (down, right), image.shape[1:], strict=True)
    y, x = ((torch.arange(side, device=image.device)[own] - by) % side for own, by, side in sides)
    return image[:, y[:, None], x]


def colour(image: Tensor, box: Box) -> Tensor:
    """One of the image's own colours."""
    return image[:, number(image.shape[1]), number(image.shape[2])][:, None, None]


def shade(image: Tensor, box: Box) -> Tensor:
    """Brighter or darker."""
    return (image[:, *box] + uniform(0.5, 2) * (1 - 2 * number(2)) * contrast(image)).clamp(-1, 1)


def blur(image: Tensor, box: Box) -> Tensor:
    around = widened(box, BLUR)
    rows, columns = (
        slice(own.start - wide.start, own.stop - wide.start) for own, wide in zip(box, around, strict=True)
    )
    return box_blur(image[:, *around], BLUR)[:, rows, columns]


def noise(image: Tensor, box: Box) -> Tensor:
    part = image[:, *box]
    return (part + torch.randn(part.shape[1:]).to(part) * uniform(0.5, 1) * contrast(image)).clamp(-1, 1)


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
