"""Pictures of a report: read by `images`, brought to size, written as files that every browser shows."""

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from normscope.images.decoding import decode_file
from normscope.report.colours import Colours

__all__ = [
    "Pixels",
    "draw_text",
    "enlarged",
    "indexed_png",
    "jpeg",
    "read",
    "stretched",
    "text_width",
    "webp",
    "within",
]

Pixels = npt.NDArray[np.uint8]
Heat = npt.NDArray[np.float64]


def read(path: Path, longest: int) -> Pixels:
    """[h, w, 3], upright, its longer side at most so many pixels; an `ImageError` if that cannot be."""
    return within(decode_file(path).pixels, longest)


def within(pixels: Pixels, longest: int) -> Pixels:
    """Shrunk, if it is larger, so that its longer side has so many pixels; the aspect is kept."""
    height, width = pixels.shape[:2]
    scale = longest / max(height, width)
    if scale >= 1:
        return pixels
    size = max(round(width * scale), 1), max(round(height * scale), 1)
    # A mean over many pixels looks as good as anything finer, and takes a third of the time for photographs.
    method = Image.Resampling.BOX if scale < 0.25 else Image.Resampling.BICUBIC
    return np.asarray(Image.fromarray(pixels).resize(size, method))


def enlarged(pixels: Pixels, longest: int) -> Pixels:
    """By a whole factor, if it is smaller, so that its longer side has at least so many pixels."""
    factor = -(-longest // max(pixels.shape[:2]))
    return pixels.repeat(factor, 0).repeat(factor, 1)


def stretched(heat: Heat, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """[h', w'] → [*size], bilinear as `Model.heat_maps` is."""
    height, width = size
    return np.asarray(
        Image.fromarray(heat.astype(np.float32)).resize((width, height), Image.Resampling.BILINEAR), np.float32
    )


def jpeg(pixels: Pixels) -> bytes:
    return _encoded(Image.fromarray(pixels), "JPEG", quality=90, subsampling=0)


def webp(pixels: Pixels, quality: int) -> bytes:
    return _encoded(Image.fromarray(pixels), "WEBP", quality=quality, method=3)


def indexed_png(indices: Pixels, palette: Colours) -> bytes:
    """Indices [h, w] into a palette [n, 4], RGBA."""
    image = Image.fromarray(indices, "P")
    image.putpalette(palette[:, :3].tobytes())
    return _encoded(image, "PNG", optimize=True, transparency=palette[:, 3].tobytes())


def draw_text(canvas: Pixels, text: str, left: int, top: int, size: int, grey: int = 60) -> None:
    """Into the canvas, in Pillow's own font."""
    image = Image.fromarray(canvas)
    ImageDraw.Draw(image).text((left, top), text, fill=(grey, grey, grey), font=ImageFont.load_default(size))
    canvas[:] = np.asarray(image)


def text_width(text: str, size: int) -> int:
    return int(ImageFont.load_default(size).getlength(text)) + 1


def _encoded(image: Image.Image, format: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()
