"""The only decoder: an image file becomes 8-bit RGB, or an `ImageError` that says why not.

A file may have MAX_BYTES and MAX_PIXELS. Files from elsewhere are decoded by `decoding`, which also bounds time and
memory.

What each kind of pixel becomes:

- 8-bit colour: as it is; an embedded colour profile is not applied.
- grey and 1-bit: three equal channels; 1-bit becomes 0 and 255.
- 16-bit grey, and 32-bit integers that lie in 0..65535: scaled linearly, 65535 to 255. Other integers are refused.
- 16-bit colour: its high byte.
- TIFF in which 0 is white: inverted, at any number of bits.
- float: refused, as its range is unknown.
- palette: its colours.
- transparency (alpha channel, transparent palette entry or colour): laid over white.
- CMYK, YCbCr, LAB, HSV: Pillow's conversion to RGB.
- several frames or pages: the first one.

The EXIF orientation is applied; an EXIF block that cannot be read counts as none.
"""

import io
import os
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
from PIL import Image, TiffImagePlugin, UnidentifiedImageError, WebPImagePlugin

from normscope.errors import ImageError
from normscope.images.outcome import reason_of
from normscope.images.size import Size

__all__ = ["FORMATS", "MAX_BYTES", "MAX_PIXELS", "Picture", "decode", "read_beginning", "resize"]

Pixels = npt.NDArray[np.uint8]

FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "WEBP", "GIF", "PPM")
MAX_PIXELS = 50_000_000
MAX_BYTES = 8 * MAX_PIXELS  # as many pixels in four channels of 16 bits, not compressed

STRIP = 2**20  # pixels converted at a time: Pillow and numpy would otherwise hold up to seven copies of an image
ORIENTATION = 0x0112  # the EXIF tag
UPRIGHT = {
    2: lambda pixels: pixels[:, ::-1],
    3: lambda pixels: pixels[::-1, ::-1],
    4: lambda pixels: pixels[::-1],
    5: lambda pixels: pixels.swapaxes(0, 1),
    6: lambda pixels: pixels.swapaxes(0, 1)[:, ::-1],
    7: lambda pixels: pixels[::-1, ::-1].swapaxes(0, 1),
    8: lambda pixels: pixels.swapaxes(0, 1)[::-1],
}


@dataclass(frozen=True)
class Picture:
    """A decoded image and what its file said about it."""

    pixels: Pixels  # [h, w, 3], RGB, upright
    shape: Size  # of the image; `pixels` may be a resized copy
    format: str  # one of FORMATS, or MPO: a JPEG that carries further pictures
    mode: str  # Pillow's name of the pixels in the file: L, RGB, I;16, P ...
    animated: bool  # there were further frames or pages, which were left out


def decode(
    source: Path | bytes | BinaryIO,
    size: Size | None = None,
    *,
    max_pixels: int = MAX_PIXELS,
    formats: tuple[str, ...] = FORMATS,
) -> Picture:
    """Reads one image, and resizes it if a size is given; every way in which that can fail is an `ImageError`.

    Both limits are checked before anything is decoded. Pillow's own (`2 * Image.MAX_IMAGE_PIXELS`) holds as well.
    """
    with _opened(source, max_pixels, formats) as image:
        image.load()
        if isinstance(image, WebPImagePlugin.WebPImageFile):
            del image._decoder  # it holds two further copies
        orientation, format, mode, animated = _orientation(image), image.format or "", image.mode, _animated(image)
        pixels = _rgb(image)
    if orientation in UPRIGHT:
        pixels = np.ascontiguousarray(UPRIGHT[orientation](pixels))
    height, width, _ = pixels.shape
    return Picture(resize(pixels, size) if size else pixels, (height, width), format, mode, animated)


def read_beginning(path: Path, length: int) -> bytes:
    """At most so many bytes of a file that is regular and of allowed length; otherwise an `ImageError`."""
    file = _open_file(path)
    try:
        return os.read(file, length)
    except OSError as error:
        raise ImageError(reason_of(error)) from error
    finally:
        os.close(file)


def resize(pixels: Pixels, size: Size) -> Pixels:
    """The whole image at this height and width, [h, w, 3] to [*size, 3].

    Antialiased. Nothing is cropped away: an image of another aspect ratio is squashed.
    """
    if pixels.shape[:2] == size:
        return pixels
    return np.array(Image.fromarray(pixels).resize(size[::-1], Image.Resampling.BILINEAR))


@contextmanager
def _opened(source: Path | bytes | BinaryIO, max_pixels: int, formats: tuple[str, ...]) -> Iterator[Image.Image]:
    """The image with its header read and its size checked; whatever goes wrong inside becomes an `ImageError`."""
    try:
        with _quiet(), _stream(source) as stream, _header(stream, formats) as image:
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
        with os.fdopen(_open_file(source), "rb") as file:
            yield file
    else:
        data = source if isinstance(source, bytes) else source.read(MAX_BYTES + 1)
        _check_length(len(data))
        yield io.BytesIO(data)


WITHOUT_WAITING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # for the writer of a FIFO


def _open_file(path: Path) -> int:
    try:
        file = os.open(path, WITHOUT_WAITING)
    except (OSError, ValueError) as error:
        raise ImageError(reason_of(error)) from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ImageError("not a regular file")
        _check_length(status.st_size)
    except ImageError:
        os.close(file)
        raise
    return file


def _check_length(length: int) -> None:
    if length == 0:
        raise ImageError("the file is empty (0 bytes)")
    if length > MAX_BYTES:
        raise ImageError(f"{length} bytes are more than the limit of {MAX_BYTES}")


def _header(stream: BinaryIO, formats: tuple[str, ...]) -> Image.Image:
    if "TIFF" in formats:
        prefix = stream.read(4)
        stream.seek(0)
        if prefix in TiffImagePlugin.PREFIXES:
            return _Tiff(stream)
    return Image.open(stream, formats=formats)


class _Tiff(TiffImagePlugin.TiffImageFile):
    """Pillow's, except that grey of 16 and 32 bits with 0 for white is opened as if 0 were black, and marked.

    Of these Pillow opens little-endian 16 bits alone, and does not invert it.
    """

    white_is_zero = False

    def _setup(self) -> None:
        tags = self.tag_v2
        if tags.get(PHOTOMETRIC, 0) == 0 and tags.get(BITS) in ((16,), (32,)):
            self.white_is_zero, tags[PHOTOMETRIC] = True, 1
        super()._setup()


PHOTOMETRIC, BITS = TiffImagePlugin.PHOTOMETRIC_INTERPRETATION, TiffImagePlugin.BITSPERSAMPLE


def _reason(error: Exception, max_pixels: int) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"not a readable {', '.join(FORMATS[:-1])} or {FORMATS[-1]} image"
    if isinstance(error, Image.DecompressionBombError):
        count = re.search(r"\d+", str(error))
        return f"{count[0] if count else 'too many'} pixels are more than the limit of {max_pixels}"
    if isinstance(error, OSError) and error.strerror:  # its full message would hold the path
        return reason_of(error)
    if isinstance(error, MemoryError):
        return "not enough memory to decode it"
    detail = " ".join(str(error).split())[:120]
    return f"damaged image data ({detail or type(error).__name__})"


def _rgb(image: Image.Image) -> Pixels:
    """[h, w, 3], by the rules at the top of this file; a strip at a time where the image is large."""
    width, height = image.size
    if width * height <= STRIP:
        pixels = _converted(image)
    else:
        rows = max(STRIP // width, 1)
        pixels = np.empty((height, width, 3), np.uint8)
        for top in range(0, height, rows):
            pixels[top : top + rows] = _converted(image.crop((0, top, width, min(top + rows, height))))
    return 255 - pixels if getattr(image, "white_is_zero", False) else pixels


def _converted(image: Image.Image) -> Pixels:
    if image.mode == "F":
        raise ImageError("float pixels have no known range; save the image with 8 or 16 bits per channel")
    if image.mode.startswith("I"):
        grey = _eight_bits(np.asarray(image), image.info.get("transparency"))
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))  # a copy, as Pillow's cannot be written to


LEVELS = np.rint(np.linspace(0, 255, 65536)).astype(np.uint8)


def _eight_bits(values: npt.NDArray[np.integer], transparent: object) -> Pixels:
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 65535:
        raise ImageError(f"integer pixels from {low} to {high}; only 0..65535 has a known meaning")
    grey: Pixels = LEVELS[values]
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
