import io
import os
import socket
import struct
import threading
import warnings
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps

from normscope.errors import ImageError
from normscope.images import reader
from normscope.images.reader import FORMATS, MAX_BYTES, decode

COLOUR = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
GREY = COLOUR[:, :, 0]


def encoded(image, format="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


def colour():
    return Image.fromarray(COLOUR)


def png(width, height, *chunks):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*one) for one in [(b"IHDR", header), *chunks, (b"IEND", b"")])


@cache
def samples():
    deep = Image.fromarray(GREY.astype(np.uint16) * 257)
    return {
        "PNG": encoded(colour()),
        "PNG palette": encoded(colour().quantize(16), transparency=bytes(range(16))),
        "PNG 16-bit": encoded(deep),
        "JPEG": encoded(colour(), "JPEG"),
        "JPEG exif": encoded(colour(), "JPEG", exif=orientation(6)),
        "JPEG progressive": encoded(colour(), "JPEG", progressive=True),
        "BMP": encoded(colour(), "BMP"),
        "TIFF": encoded(colour(), "TIFF"),
        "TIFF lzw": encoded(colour(), "TIFF", compression="tiff_lzw"),
        "TIFF 16-bit": encoded(deep, "TIFF", compression="tiff_adobe_deflate"),
        "WEBP": encoded(colour(), "WEBP"),
        "WEBP lossless": encoded(colour(), "WEBP", lossless=True, exif=orientation(3)),
        "GIF": encoded(colour(), "GIF"),
        "GIF animated": encoded(colour(), "GIF", save_all=True, append_images=[ImageOps.invert(colour())]),
        "PPM": encoded(colour(), "PPM"),
        "MPO": encoded(colour(), "MPO", save_all=True, append_images=[ImageOps.invert(colour())]),
    }


def orientation(value):
    exif = Image.Exif()
    exif[0x0112] = value
    return exif.tobytes()


def test_undamaged_samples_decode():
    for name, data in samples().items():
        assert decode(data).pixels.shape == ((32, 24, 3) if name == "JPEG exif" else (24, 32, 3)), name


def test_other_formats_are_refused():
    for format in ("ICO", "PCX", "TGA", "JPEG2000", "EPS", "PDF"):
        assert format not in FORMATS
        with pytest.raises(ImageError, match="not a readable PNG"):
            decode(encoded(colour(), format))


def test_size_is_checked_before_decoding(monkeypatch):
    def never(self):
        raise AssertionError("decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", never)
    with pytest.raises(ImageError, match=r"32 x 24 = 768 pixels .* limit of 767"):
        decode(encoded(colour(), "BMP"), max_pixels=767)


@pytest.mark.parametrize("side", [8000, 10_000, 14_000, 100_000, 2**31 - 1])
def test_header_claiming_a_huge_size(side):
    data = png(side, side, (b"IDAT", zlib.compress(b"")))
    with pytest.raises(ImageError, match=rf"{side * side} pixels .* limit of 50000000"):
        decode(data)


def test_compressed_text_bomb_is_refused():
    bomb = zlib.compress(bytes(80 * 2**20), 1)
    with pytest.raises(ImageError):
        decode(png(4, 4, (b"zTXt", b"key\0\0" + bomb), (b"IDAT", zlib.compress(bytes(4 * 13)))))


def test_pillows_limits_are_left_alone():
    before = Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES
    decode(encoded(colour()), max_pixels=10**9)
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\0" * 1000, b"\x89PNG\r\n\x1a\n", b"BM", b"GIF89a", b"P6 0 0 255\n"]
)
def test_what_is_no_image(content, tmp_path):
    (tmp_path / "a.png").write_bytes(content)
    for source in (tmp_path / "a.png", content, io.BytesIO(content)):
        with pytest.raises(ImageError) as caught:
            decode(source)
        assert ("empty (0 bytes)" in str(caught.value)) == (content == b"")
        assert str(tmp_path) not in str(caught.value)


def test_what_is_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "fifo.png")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        try:
            os.chdir(tmp_path)  # a socket's path must be short
            listener.bind("socket.png")
        finally:
            os.chdir(here)
        before = sorted(Path("/proc/self/fd").iterdir())
        for name in ("fifo.png", "socket.png", "."):
            with pytest.raises(ImageError, match="not a regular file"):
                decode(tmp_path / name)
        assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_length_is_checked_before_the_file_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a.jpg"
    path.touch()
    os.truncate(path, MAX_BYTES + 1)  # takes no room on the disk
    monkeypatch.setattr(Image, "open", lambda *arguments, **options: pytest.fail("read"))
    with pytest.raises(ImageError, match="400000001 bytes are more than the limit of 400000000"):
        decode(path)


def test_length_of_bytes_and_streams_is_checked(monkeypatch):
    data = encoded(colour())
    monkeypatch.setattr(reader, "MAX_BYTES", len(data))
    for source in (data, io.BytesIO(data)):
        decode(source)
    monkeypatch.setattr(reader, "MAX_BYTES", len(data) - 1)
    for source in (data, io.BytesIO(data)):
        with pytest.raises(ImageError, match="bytes are more than the limit"):
            decode(source)


def test_missing_and_forbidden_files_are_named_by_their_reason_only(tmp_path, monkeypatch):
    with pytest.raises(ImageError, match=r"^No such file or directory$"):
        decode(tmp_path / "missing.png")
    (tmp_path / "a.png").write_bytes(encoded(colour()))

    def refuse(path, *arguments):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)  # root may read a file of mode 0
    with pytest.raises(ImageError, match=r"^Permission denied$"):
        decode(tmp_path / "a.png")


@pytest.mark.parametrize(
    "error", [MemoryError(), KeyError("x"), RuntimeError(), AttributeError("a\nb"), OverflowError()]
)
def test_whatever_pillow_raises_is_an_image_error(error, monkeypatch):
    def fail(self):
        raise error

    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    with pytest.raises(ImageError) as caught:
        decode(encoded(colour(), "BMP"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", samples())
def test_half_a_file_is_an_error(name):
    data = samples()[name]
    size = len(data) // (4 if name in ("MPO", "GIF animated") else 2)  # half of which is the first frame
    with pytest.raises(ImageError):
        decode(data[:size])


@pytest.mark.parametrize("name", samples())
def test_damage_gives_an_array_or_an_image_error(name):
    data = samples()[name]
    rng = np.random.default_rng(len(data))
    broken = [data[:size] for size in {*range(0, 40), *rng.integers(0, len(data), 40).tolist()}]
    for _ in range(200):
        copy = np.frombuffer(data, np.uint8).copy()
        reach = len(copy) if rng.random() < 0.5 else min(len(copy), 120)  # headers are at the front, mostly
        copy[rng.integers(0, reach, rng.integers(1, 6))] = rng.integers(0, 256)
        broken.append(copy.tobytes())
    outcomes = [outcome(one) for one in broken]
    errors = [one for one in outcomes if one.startswith("error")]
    assert len(errors) > 20
    assert max(len(one) for one in errors) < 200


def outcome(data):
    try:
        picture = decode(data, max_pixels=10**6)
    except ImageError as error:
        return f"error: {error}"
    assert picture.pixels.dtype == np.uint8
    assert picture.pixels.ndim == 3
    assert picture.pixels.shape[2] == 3
    return "array"


def test_warning_filters_survive_threads():
    data = encoded(colour().quantize(16), transparency=bytes(range(16)))
    before = list(warnings.filters)
    threads = [threading.Thread(target=lambda: [decode(data) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


def test_only_pillows_warnings_are_silenced(monkeypatch):
    original = ImageFile.ImageFile.load

    def load(self):
        warnings.warn("from elsewhere", UserWarning, stacklevel=1)
        return original(self)

    monkeypatch.setattr(ImageFile.ImageFile, "load", load)
    with pytest.warns(UserWarning, match="from elsewhere"):
        decode(encoded(colour(), "BMP"))
