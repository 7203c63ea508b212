"""The only decoder: an image file becomes 8-bit RGB, or an `ImageError` that says why not.

What each kind of pixel becomes:

- 8-bit colour: as it is; an embedded colour profile is not applied.
- grey and 1-bit: three equal channels; 1-bit becomes 0 and 255.
- 16-bit grey, and 32-bit integers that lie in 0..65535: scaled linearly, 65535 to 255. Other integers are refused.
- 16-bit colour: its high byte.
- float: refused, as its range is unknown.
- palette: its colours.
- transparency (alpha channel, transparent palette entry or colour): laid over white.
- CMYK, YCbCr, LAB, HSV: Pillow's conversion to RGB.
- several frames or pages: the first one.

The EXIF orientation is applied; an EXIF block that cannot be read counts as none.
"""

import io
import re
import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

# Importing the two plugins registers them; otherwise the first TIFF would make Pillow import every plugin it has.
from PIL import Image, TiffImagePlugin, UnidentifiedImageError, WebPImagePlugin  # noqa: F401

from normscope.errors import ImageError

__all__ = ["FORMATS", "MAX_PIXELS", "Picture", "decode", "dimensions", "resize"]

Pixels = npt.NDArray[np.uint8]

FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP", "GIF", "PPM")
MAX_PIXELS = 50_000_000

EMPTY = "the file is empty (0 bytes)"
ORIENTATION = 0x0112  # the EXIF tag
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class Picture:
    """A decoded image and what its file said about it."""

    pixels: Pixels  # [h, w, 3], RGB, upright
    format: str  # one of FORMATS, or MPO: a JPEG that carries further pictures
    mode: str  # Pillow's name of the pixels in the file: L, RGB, I;16, P ...
    animated: bool  # there were further frames or pages, which were left out


def decode(source: Path | bytes | BinaryIO, *, max_pixels: int = MAX_PIXELS) -> Picture:
    """Reads one image; every way in which that can fail is an `ImageError`.

    The size is checked before anything is decoded. Pillow's own limit (`2 * Image.MAX_IMAGE_PIXELS`) holds as well.
    """
    with _opened(source, max_pixels) as image:
        image.load()
        mode, orientation = image.mode, _orientation(image)
        pixels = _rgb(image)
        if orientation in UPRIGHT:
            pixels = np.array(Image.fromarray(pixels).transpose(UPRIGHT[orientation]))
        return Picture(pixels, image.format or "", mode, _animated(image))


def dimensions(source: Path | bytes | BinaryIO, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Height and width as the header gives them, before EXIF orientation; nothing is decoded."""
    with _opened(source, max_pixels) as image:
        return image.height, image.width


def resize(pixels: Pixels, size: int) -> Pixels:
    """The whole image squashed to a square, [h, w, 3] to [size, size, 3].

    Antialiased. Nothing is cropped away, so the aspect ratio is not kept.
    """
    if pixels.shape[:2] == (size, size):
        return pixels
    return np.array(Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR))


@contextmanager
def _opened(source: Path | bytes | BinaryIO, max_pixels: int) -> Iterator[Image.Image]:
    """The image with its header read and its size checked; whatever goes wrong inside becomes an `ImageError`."""
    try:
        with _quiet(), _stream(source) as stream, Image.open(stream, formats=FORMATS) as image:
            if image.width * image.height > max_pixels:
                raise ImageError(
                    f"{image.width} x {image.height} = {image.width * image.height} pixels are more than "
                    f"the limit of {max_pixels}"
                )
            if image.width * image.height == 0:
                raise ImageError(f"an image of {image.width} x {image.height} pixels is empty")
            yield image
    except ImageError:
        raise
    # Damaged files make Pillow raise nearly anything: OSError, SyntaxError, struct.error, KeyError, MemoryError ...
    except Exception as error:
        raise ImageError(_reason(error, max_pixels)) from error


@contextmanager
def _stream(source: Path | bytes | BinaryIO) -> Iterator[BinaryIO]:
    if isinstance(source, Path):
        status = source.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a FIFO would wait for a writer
            raise ImageError("not a regular file")
        if status.st_size == 0:
            raise ImageError(EMPTY)
        with source.open("rb") as file:
            yield file
    else:
        data = source if isinstance(source, bytes) else source.read()
        if not data:
            raise ImageError(EMPTY)
        yield io.BytesIO(data)


def _reason(error: Exception, max_pixels: int) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"not a readable {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image"
    if isinstance(error, Image.DecompressionBombError):
        count = re.search(r"\d+", str(error))
        return f"{count[0] if count else 'too many'} pixels are more than the limit of {max_pixels}"
    if isinstance(error, OSError) and error.strerror:  # its full message would hold the path
        return error.strerror
    if isinstance(error, MemoryError):
        return "not enough memory to decode it"
    detail = " ".join(str(error).split())[:120]
    return f"damaged image data ({detail or type(error).__name__})"


def _rgb(image: Image.Image) -> Pixels:
    """[h, w, 3], by the rules at the top of this file."""
    if image.mode == "F":
        raise ImageError("float pixels have no known range; save the image with 8 or 16 bits per channel")
    if image.mode.startswith("I"):
        grey = _eight_bits(np.asarray(image), image.info.get("transparency"))
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image.convert("RGB"))  # a copy, as Pillow's own bytes cannot be written to


def _eight_bits(values: npt.NDArray[np.integer], transparent: object) -> Pixels:
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 65535:
        raise ImageError(f"integer pixels from {low} to {high}; only 0..65535 has a known meaning")
    levels = np.rint(np.linspace(0, 255, 65536)).astype(np.uint8)
    grey: Pixels = levels[values]
    if isinstance(transparent, int):
        grey[values == transparent] = 255
    return grey


def _orientation(image: Image.Image) -> object:
    try:
        return image.getexif().get(ORIENTATION)
    except Exception:  # as wide as in `_opened`; the pixels are sound, so they are kept
        return None


def _animated(image: Image.Image) -> bool:
    try:
        return bool(getattr(image, "is_animated", False))
    except Exception:  # a damaged second frame, which is not used
        return False


_quiet_lock = threading.Lock()
_quiet_filters = ExitStack()
_quiet_count = 0


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignores Pillow's warnings, and nobody else's.

    `catch_warnings` swaps a global list, so threads that overlap must share one: the first in opens it, the last out
    closes it.
    """
    global _quiet_count
    with _quiet_lock:
        _quiet_count += 1
        if _quiet_count == 1:
            _quiet_filters.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", module=r"PIL\.")
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet_count -= 1
            if _quiet_count == 0:
                _quiet_filters.close()
