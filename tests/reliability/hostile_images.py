"""Files that call themselves images and are damaged, absurd or made to do harm: a kind is a function of a generator.

`corpus` writes as many as are asked for, every kind in turn. Those of BROKEN can never be read as an image; of the
others some can, as a flipped bit may change a pixel and no more.
"""

import io
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

Rng = np.random.Generator
FORMATS = {"png": "PNG", "jpg": "JPEG", "bmp": "BMP", "tif": "TIFF", "webp": "WEBP", "gif": "GIF", "ppm": "PPM"}


def picture(rng: Rng, side: int = 40) -> Image.Image:
    return Image.fromarray(rng.integers(0, 256, (side, side + 8, 3), dtype=np.uint8))


def encoded(image: Image.Image, format: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


def truncated(format: str) -> Callable[[Rng], bytes]:
    def make(rng: Rng) -> bytes:
        data = encoded(picture(rng), format)
        return data[: rng.integers(1, len(data) // 2)]

    return make


def flipped(format: str, reach: int | None) -> Callable[[Rng], bytes]:
    """Some bytes changed: anywhere, or among the first ones."""

    def make(rng: Rng) -> bytes:
        data = np.frombuffer(encoded(picture(rng), format), np.uint8).copy()
        places = rng.integers(0, min(reach or len(data), len(data)), rng.integers(1, 9))
        data[places] = rng.integers(0, 256, len(places))
        return data.tobytes()

    return make


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *chunks: bytes, depth: int = 8, colour: int = 2, interlaced: int = 0) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(chunks) + chunk(b"IEND", b"")


def pixels(count: int) -> bytes:
    return chunk(b"IDAT", zlib.compress(bytes(count), 1))


def png_bad_checksum(rng: Rng) -> bytes:
    data = bytearray(png(4, 4, pixels(4 * 13)))
    data[29] ^= 255
    return bytes(data)


def segment(kind: int, data: bytes) -> bytes:
    return b"\xff" + bytes([kind]) + struct.pack(">H", len(data) + 2) + data


def jpeg_with(extra: Callable[[Rng], bytes]) -> Callable[[Rng], bytes]:
    """Segments after the first two bytes of a sound file."""

    def make(rng: Rng) -> bytes:
        data = encoded(picture(rng), "JPEG")
        return data[:2] + extra(rng) + data[2:]

    return make


def jpeg_of_size(height: int, width: int) -> Callable[[Rng], bytes]:
    def make(rng: Rng) -> bytes:
        data = bytearray(encoded(picture(rng), "JPEG"))
        place = data.index(b"\xff\xc0") + 5
        data[place : place + 4] = struct.pack(">HH", height, width)
        return bytes(data)

    return make


def jpeg_many_scans(rng: Rng) -> bytes:
    data = encoded(picture(rng, 400), "JPEG", progressive=True)
    place = data.rindex(b"\xff\xda")
    return data[:place] + data[place:-2] * 400 + data[-2:]


def tiff(*entries: tuple[int, int, int, int], following: int = 0, rest: bytes = b"") -> bytes:
    """Little-endian, with one folder of tags: tag, type, count, value."""
    body = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + body + struct.pack("<I", following) + rest


def tiff_tags(width: int, height: int, *more: tuple[int, int, int, int], compression: int = 1) -> list:
    own = [(256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, compression), (262, 3, 1, 1)]
    return sorted(
        [
            *own,
            (273, 4, 1, 200),
            (277, 3, 1, 1),
            (278, 4, 1, height),
            (279, 4, 1, min(width * height, 2**32 - 1)),
            *more,
        ]
    )


def tiff_bomb(rng: Rng) -> bytes:
    side, data = 7000, zlib.compress(bytes(7000 * 7000), 9)
    tags = [entry for entry in tiff_tags(side, side, compression=8) if entry[0] != 279]
    return tiff(*sorted([*tags, (279, 4, 1, len(data))]), rest=bytes(200 - 8 - 2 - 12 * 9 - 4)) + data


def gif_of_frames(rng: Rng) -> bytes:
    frames = [Image.new("P", (20, 20), int(number)) for number in rng.integers(0, 256, 300)]
    return encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])


def gif_of_size(width: int, height: int) -> Callable[[Rng], bytes]:
    def make(rng: Rng) -> bytes:
        data = bytearray(encoded(picture(rng), "GIF"))
        data[6:10] = struct.pack("<HH", width, height)
        return bytes(data)

    return make


def bmp_of_size(width: int, height: int) -> Callable[[Rng], bytes]:
    def make(rng: Rng) -> bytes:
        data = bytearray(encoded(picture(rng), "BMP"))
        data[18:26] = struct.pack("<ii", width, height)
        return bytes(data)

    return make


def bmp_runs(rng: Rng) -> bytes:
    """Run-length coding that moves on and on without a pixel."""
    header = struct.pack("<IiiHHIIiiII", 40, 2000, 2000, 1, 8, 1, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 0, 0, 0, 54 + 1024) + header + bytes(1024) + b"\0\2\1\0" * 5000


def archive(rng: Rng) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.writestr("../../x.png", rng.bytes(100))
    return stream.getvalue()


class Harm:
    def __reduce__(self) -> tuple:
        return print, ("unpickled",)


def exif_loop(rng: Rng) -> bytes:
    """A folder of tags that names itself as the next, and one inside itself."""
    loop = b"II*\0" + struct.pack("<IH", 8, 1) + struct.pack("<HHII", 0x8769, 4, 1, 8) + struct.pack("<I", 8)
    return segment(0xE1, b"Exif\0\0" + loop)


BROKEN: dict[str, Callable[[Rng], bytes]] = {
    "empty": lambda rng: b"",
    "one byte": lambda rng: rng.bytes(1),
    "text": lambda rng: b"this is no image\n" * int(rng.integers(1, 50)),
    "noughts": lambda rng: bytes(int(rng.integers(1, 5000))),
    "noise": lambda rng: rng.bytes(int(rng.integers(1, 5000))),
    "a page": lambda rng: b"<!doctype html><script>alert(1)</script>",
    "SVG": lambda rng: b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
    "a pickle": lambda rng: pickle.dumps(Harm()),
    "an archive": archive,
    "a program": lambda rng: b"\x7fELF" + rng.bytes(500),
    "PostScript": lambda rng: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n{loop} exec\n",
    "PDF": lambda rng: encoded(picture(rng), "PDF"),
    "an icon": lambda rng: encoded(picture(rng), "ICO"),
    "a signature alone": lambda rng: [b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"II*\0", b"\xff\xd8\xff"][
        rng.integers(5)
    ],
    "PNG cut off": truncated("PNG"),
    "BMP cut off": truncated("BMP"),
    "TIFF cut off": truncated("TIFF"),
    "WebP cut off": truncated("WEBP"),
    "PPM cut off": truncated("PPM"),
    "PNG of 2^31 pixels a side": lambda rng: png(2**31 - 1, 2**31 - 1, pixels(10)),
    "PNG of 100,000 pixels a side": lambda rng: png(100_000, 100_000, pixels(10)),
    "PNG without pixels": lambda rng: png(0, int(rng.integers(0, 9)), pixels(0)),
    "PNG with a bomb of text": lambda rng: png(
        4, 4, chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(30 * 2**20), 1)), pixels(4 * 13)
    ),
    "PNG with a bomb of a profile": lambda rng: png(
        4, 4, chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(30 * 2**20), 1)), pixels(4)
    ),
    "PNG of an unknown depth": lambda rng: png(4, 4, pixels(4 * 13), depth=int(rng.integers(17, 99))),
    "PNG of an unknown colour": lambda rng: png(4, 4, pixels(4 * 13), colour=int(rng.integers(7, 99))),
    "PNG without data": lambda rng: png(4, 4),
    "PNG with a wrong checksum": png_bad_checksum,
    "JPEG of 65,535 pixels a side": jpeg_of_size(65_535, 65_535),
    "JPEG without pixels": jpeg_of_size(0, 0),
    "TIFF of 2^31 pixels a side": lambda rng: tiff(*tiff_tags(2**31, 2**31)),
    "TIFF without data": lambda rng: tiff(*tiff_tags(40, 40)),
    "TIFF with four thousand million strips": lambda rng: tiff((273, 4, 2**32 - 1, 8), *tiff_tags(40, 40)[:5]),
    "TIFF that names itself": lambda rng: tiff(*tiff_tags(40, 40), following=8),
    "TIFF of an unknown compression": lambda rng: tiff(*tiff_tags(8, 8, compression=int(rng.integers(200, 9999)))),
    "TIFF without tags": lambda rng: tiff(),
    "GIF of 65,535 pixels a side": gif_of_size(65_535, 65_535),
    "BMP of 100,000 pixels a side": bmp_of_size(100_000, 100_000),
    "BMP of negative width": bmp_of_size(-40, 40),
    "PPM of 10^9 pixels a side": lambda rng: b"P6 1000000000 1000000000 255\n" + rng.bytes(50),
    "PPM of ten thousand digits": lambda rng: b"P6 " + b"9" * 10_000 + b" 1 255\n",
    "PPM of a comment without end": lambda rng: b"P6 #" + b"x" * 50_000,
    "WebP of chunks without end": lambda rng: b"RIFF" + struct.pack("<I", 2**32 - 2) + b"WEBPVP8X" + rng.bytes(60),
}
DAMAGED: dict[str, Callable[[Rng], bytes]] = {
    "JPEG cut off": truncated("JPEG"),
    "GIF cut off": truncated("GIF"),
    **{f"{format} with bytes changed": flipped(format, None) for format in FORMATS.values()},
    **{f"{format} with its head changed": flipped(format, 64) for format in FORMATS.values()},
    "PNG of empty chunks": lambda rng: png(4, 4, chunk(b"abCd", b"") * 4000, pixels(4 * 13)),
    "PNG without its palette": lambda rng: png(4, 4, pixels(4 * 5), colour=3),
    "PNG interlaced, too short": lambda rng: png(40, 40, pixels(10), interlaced=1),
    "PNG with an archive behind it": lambda rng: encoded(picture(rng), "PNG") + archive(rng),
    "JPEG of comments": jpeg_with(lambda rng: segment(0xFE, rng.bytes(60)) * 800),
    "JPEG with EXIF of noise": jpeg_with(lambda rng: segment(0xE1, b"Exif\0\0II*\0" + rng.bytes(2000))),
    "JPEG with EXIF that names itself": jpeg_with(exif_loop),
    "JPEG with tables of noise": jpeg_with(lambda rng: segment(0xC4, rng.bytes(100)) + segment(0xDB, rng.bytes(65))),
    "JPEG of a CMYK profile": jpeg_with(lambda rng: segment(0xE2, b"ICC_PROFILE\0\1\1" + rng.bytes(200))),
    "GIF of 300 frames": gif_of_frames,
    "GIF without pixels": gif_of_size(0, 0),
    "BMP of runs without pixels": bmp_runs,
    "float TIFF": lambda rng: encoded(Image.fromarray(rng.normal(size=(9, 9)).astype(np.float32)), "TIFF"),
}
HEAVY: dict[str, Callable[[Rng], bytes]] = {  # seconds each
    "JPEG of 400 scans": jpeg_many_scans,
    "TIFF that unpacks a thousandfold": tiff_bomb,
    "PNG that unpacks a thousandfold": lambda rng: png(
        7000, 7000, chunk(b"IDAT", zlib.compress(bytes(7000 * 7001), 9)), colour=0
    ),
}
KINDS = {**BROKEN, **DAMAGED}


def corpus(folder: Path, count: int, seed: int, kinds: dict[str, Callable[[Rng], bytes]]) -> list[Path]:
    """So many files, every kind in turn; names sort among one another at random, and any suffix may be wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, names, made = np.random.default_rng(seed), list(kinds), []
    for number in range(count):
        suffix = list(FORMATS)[rng.integers(len(FORMATS))]
        path = folder / f"{rng.integers(10**6):06}-{number}.{suffix}"
        path.write_bytes(kinds[names[number % len(names)]](rng))
        made.append(path)
    return made
