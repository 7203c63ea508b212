"""An image and its heat map as a report shows them: small files, within a number of bytes."""

from typing import NamedTuple

from normscope.report.colours import palette
from normscope.report.layer import layer
from normscope.report.picture import Heat, Pixels, enlarged, indexed_png, webp, within

__all__ = ["Thumbnail", "longest_side", "thumbnail"]

COLOURS = 14  # and two of the outline: four bits for a pixel
QUALITIES = (70, 50, 30)
SMALLEST = 96  # pixels of the longer side to which smaller images are enlarged
HEAT_SHARE = 0.35  # of the bytes, at most


class Thumbnail(NamedTuple):
    """A WebP file, its width and height, and a PNG file to be stretched over it, if there is a heat map."""

    image: bytes
    width: int
    height: int
    heat: bytes | None


def longest_side(most_bytes: int) -> int:
    """Pixels of the longer side for which so many bytes are enough for most images."""
    return int(min(max(4.5 * most_bytes**0.5, 64), 640))


def thumbnail(pixels: Pixels, heat: Heat | None, most_bytes: int) -> Thumbnail:
    """Of an image [h, w, 3]; as large and as good as the bytes allow."""
    pixels, side = enlarged(pixels, SMALLEST), longest_side(most_bytes)
    shape = within(pixels, side).shape
    over = heat_layer(heat, (shape[0], shape[1]), int(most_bytes * HEAT_SHARE)) if heat is not None else None
    left = most_bytes - len(over or b"")
    while True:
        small = within(pixels, side)
        for quality in QUALITIES:
            data = webp(small, quality)
            if len(data) <= left or (side <= 24 and quality == QUALITIES[-1]):
                return Thumbnail(data, small.shape[1], small.shape[0], over)
        side = side * 3 // 4


def heat_layer(heat: Heat, shape: tuple[int, int], most_bytes: int) -> bytes:
    """As fine as the bytes allow, but no coarser than 24 pixels a side."""
    scale = min(280 / max(shape), 1)
    while True:
        size = max(round(shape[0] * scale), 1), max(round(shape[1] * scale), 1)
        data = indexed_png(layer(heat, size, COLOURS), palette(COLOURS))
        if len(data) <= most_bytes or max(size) <= 24:
            return data
        scale *= 0.75
