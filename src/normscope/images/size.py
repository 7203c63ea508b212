"""Height and width of images: the typical size of many, and how far they are squashed to it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["LARGEST", "SMALL", "SMALLEST", "Auto", "Size", "squash_note", "typical_aspect_ratio", "typical_size"]

Size = tuple[int, int]
"""Height and width in pixels."""

SMALLEST, LARGEST = 28, 1024  # pixels a side
SMALL = 64  # pixels on the shorter side: an image of so few is of one thing, and what is wrong with it is no small spot
LONGEST = 3  # times the shorter side, where the size is chosen for the caller
NOTICEABLE = math.log(1.25)  # from the typical aspect ratio to that of the size
UNLIKE = math.log(1.5)  # from the aspect ratio of one image to the typical one
MANY = 0.1  # share of the images


@dataclass(frozen=True)
class Auto:
    """A size that is chosen from the images: at most so many pixels on the shorter side, a square unless allowed.

    Many images are kept smaller than few, so that all have no more than `pixels`; but no less than half as large.
    Images of more than 64 pixels are enlarged by the factor `enlarge`, up to the largest size.
    """

    largest: int = 256
    rectangles: bool = False
    pixels: float = math.inf
    enlarge: float = 1.0

    def at_most(self, images: int) -> int:
        """Pixels on the shorter side of so many."""
        return int(min(self.largest, max(self.largest / 2, math.sqrt(self.pixels / max(images, 1)))))


def typical_size(shapes: Sequence[Size], auto: Auto, images: int | None = None) -> Size:
    """The shorter side is the median of shorter sides, within bounds; the longer one follows the typical aspect ratio,
    up to 3 times the shorter; both are smaller where it would be too long. A square of the largest side if there are no
    images. `images` is how many there are where the shapes are of a few of them."""
    largest = auto.at_most(len(shapes) if images is None else images)
    if not shapes:
        return largest, largest
    usual = median(map(min, shapes))
    ratio = typical_aspect_ratio(shapes) if auto.rectangles else 1.0
    times = min(max(ratio, 1 / ratio), LONGEST)
    largest = min(largest, int(LARGEST / times))
    shorter = min(max(int(usual * (auto.enlarge if usual > SMALL else 1)), SMALLEST), largest)
    longer = round(shorter * times)
    return (shorter, longer) if ratio >= 1 else (longer, shorter)


def typical_aspect_ratio(shapes: Sequence[Size]) -> float:
    """Width / height: the median, the same for images that lie as for images that stand."""
    return math.exp(median(map(log_ratio, shapes)))


def squash_note(shapes: Sequence[Size], size: Size, advice: str) -> str | None:
    """What the user should know where images are squashed noticeably; `advice` says how to keep their shape."""
    typical, (height, width) = median(map(log_ratio, shapes)), size
    if abs(typical - log_ratio(size)) > NOTICEABLE:
        long = "wide as high" if typical > 0 else "high as wide"
        times = f"{math.exp(abs(typical)):.3g} times as {long}" if round(typical, 2) else "about square"
        return f"the images are {times} and are squashed to {height}x{width} (height x width); {advice}"
    unlike = sum(abs(log_ratio(shape) - typical) > UNLIKE for shape in shapes)
    if unlike > MANY * len(shapes):
        return (
            f"{unlike} of {len(shapes)} images are much wider or higher than the others and are squashed to their "
            "shape; crop them, or fit a model for each shape"
        )
    return None


def log_ratio(size: Size) -> float:
    height, width = size
    return math.log(width / height)
