import io
import struct
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image, ImageOps

from normscope.errors import ImageError
from normscope.images import reader
from normscope.images.reader import decode, resize

COLOUR = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)
GREY = COLOUR[:, :, 0]


def encoded(image, format="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


def colour():
    return Image.fromarray(COLOUR)


def orientation(value):
    exif = Image.Exif()
    exif[0x0112] = value
    return exif.tobytes()


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_formats_keep_every_pixel(format):
    picture = decode(encoded(colour(), format))
    np.testing.assert_array_equal(picture.pixels, COLOUR)
    assert (picture.format, picture.mode, picture.animated) == (format, "RGB", False)
    assert picture.pixels.dtype == np.uint8
    assert picture.pixels.flags.writeable


def test_path_bytes_and_stream_agree(tmp_path):
    data = encoded(colour())
    (tmp_path / "a.png").write_bytes(data)
    for source in (data, io.BytesIO(data), tmp_path / "a.png"):
        np.testing.assert_array_equal(decode(source).pixels, COLOUR)


def test_content_decides_not_the_name(tmp_path):
    (tmp_path / "a.jpg").write_bytes(encoded(colour()))
    assert decode(tmp_path / "a.jpg").format == "PNG"


def test_grey_becomes_three_equal_channels():
    pixels = decode(encoded(Image.fromarray(GREY))).pixels
    np.testing.assert_array_equal(pixels, np.repeat(GREY[:, :, None], 3, axis=2))


@pytest.mark.parametrize("format", ["PNG", "BMP", "TIFF", "PPM"])
def test_one_bit_becomes_0_and_255(format):
    pixels = decode(encoded(Image.fromarray(GREY > 127), format)).pixels
    np.testing.assert_array_equal(pixels[:, :, 0], np.where(GREY > 127, 255, 0))


@pytest.mark.parametrize("format", ["PNG", "TIFF", "PPM"])
def test_16_bit_grey_is_scaled_linearly(format):
    values = np.linspace(0, 65535, 24 * 32).astype(np.uint16).reshape(24, 32)
    picture = decode(encoded(Image.fromarray(values), format))
    np.testing.assert_array_equal(picture.pixels[:, :, 1], np.rint(values / 257).astype(np.uint8))
    assert picture.mode.startswith("I")


def tiff(values, order, *, white_is_zero, sample_format=1):
    """A TIFF written by hand: grey, not compressed; `values` are uint8, uint16, uint32, or bool for single bits."""
    height, width = values.shape
    bits = 1 if values.dtype == bool else 8 * values.itemsize
    data = np.packbits(values, axis=1) if bits == 1 else values.astype(values.dtype.newbyteorder(order))
    tags = [(256, width), (257, height), (258, bits), (259, 1), (262, 0 if white_is_zero else 1)]
    tags += [(273, 8 + 2 + 9 * 12 + 4), (278, height), (279, data.nbytes), (339, sample_format)]
    entries = b"".join(struct.pack(f"{order}HHIHH", tag, 3, 1, value, 0) for tag, value in tags)
    header = b"MM\0*" if order == ">" else b"II*\0"
    return header + struct.pack(f"{order}IH", 8, len(tags)) + entries + bytes(4) + data.tobytes()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.uint16, np.uint32])
def test_tiff_in_which_0_is_white_is_inverted(order, dtype):
    dark, light = {bool: (0, 1), np.uint8: (0, 255)}.get(dtype, (0, 65535))
    values = np.array([[dark, light, dark, light, light, dark, dark, dark]], dtype)
    sample_format = 2 if dtype is np.uint32 else 1  # Pillow reads big-endian 32 bits if they have a sign
    plain = decode(tiff(values, order, white_is_zero=False, sample_format=sample_format))
    inverted = decode(tiff(values, order, white_is_zero=True, sample_format=sample_format))
    np.testing.assert_array_equal(plain.pixels[0, :, 0], np.where(values[0] == light, 255, 0))
    np.testing.assert_array_equal(inverted.pixels, 255 - plain.pixels)
    assert inverted.mode == plain.mode
    assert inverted.format == "TIFF"


@pytest.mark.parametrize("order", ["<", ">"])
def test_deep_tiff_in_which_0_is_white_looks_like_its_8_bit_copy(order):
    deep = tiff(GREY.astype(np.uint16) * 257, order, white_is_zero=True)
    np.testing.assert_array_equal(decode(deep).pixels, decode(tiff(GREY, order, white_is_zero=True)).pixels)
    np.testing.assert_array_equal(decode(deep).pixels[:, :, 0], 255 - GREY)


def test_compressed_tiff_in_which_0_is_white():
    deep = Image.fromarray(GREY.astype(np.uint16) * 257)
    data = encoded(deep, "TIFF", compression="tiff_adobe_deflate")
    black = struct.pack("<HHIHH", 262, 3, 1, 1, 0)
    assert data.count(black) == 1
    white = decode(data.replace(black, struct.pack("<HHIHH", 262, 3, 1, 0, 0)))
    np.testing.assert_array_equal(white.pixels[:, :, 0], 255 - GREY)


def test_big_endian_16_bits():
    values = np.array([[0, 257], [32896, 65535]], np.uint16)
    pgm = b"P5 2 2 65535\n" + values.astype(">u2").tobytes()
    for data in (tiff(values, ">", white_is_zero=False), pgm, encoded(Image.fromarray(values))):
        np.testing.assert_array_equal(decode(data).pixels[:, :, 0], [[0, 1], [128, 255]])


def test_32_bit_integers_are_taken_only_within_16_bits():
    fits = Image.fromarray(np.array([[0, 65535]], np.int32))
    np.testing.assert_array_equal(decode(encoded(fits, "TIFF")).pixels[:, :, 0], [[0, 255]])
    for values in ([[0, 65536]], [[-1, 0]]):
        with pytest.raises(ImageError, match=r"only 0\.\.65535"):
            decode(encoded(Image.fromarray(np.array(values, np.int32)), "TIFF"))


def test_float_pixels_are_refused():
    with pytest.raises(ImageError, match="float pixels"):
        decode(encoded(Image.fromarray(GREY.astype(np.float32)), "TIFF"))


def test_palette_gives_its_colours():
    image = colour().quantize(16)
    np.testing.assert_array_equal(decode(encoded(image)).pixels, np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("format", ["PNG", "TIFF", "WEBP"])
def test_alpha_is_laid_over_white(format):
    image = Image.new("RGBA", (3, 1))
    for x, alpha in enumerate([0, 255, 128]):
        image.putpixel((x, 0), (100, 0, 0, alpha))
    options = {"lossless": True, "exact": True} if format == "WEBP" else {}
    pixels = decode(encoded(image, format, **options)).pixels
    expected = [[[255, 255, 255], [100, 0, 0], [177, 127, 127]]]
    np.testing.assert_allclose(pixels.astype(int), expected, atol=1)


def test_grey_with_alpha_is_laid_over_white():
    image = Image.merge("LA", [Image.new("L", (1, 1), 10), Image.new("L", (1, 1), 0)])
    assert (decode(encoded(image)).pixels == 255).all()


@pytest.mark.parametrize(
    ("image", "transparent"),
    [
        (Image.new("RGB", (2, 2), (1, 2, 3)), (1, 2, 3)),
        (Image.new("L", (2, 2), 7), 7),
        (Image.new("1", (2, 2), 0), 0),
        (Image.new("P", (2, 2), 0), 0),
        (Image.new("P", (2, 2), 0), b"\0\xff"),
        (Image.new("I;16", (2, 2), 700), 700),
    ],
)
def test_transparent_colour_becomes_white(image, transparent):
    assert (decode(encoded(image)).pixels < 255).any()
    assert (decode(encoded(image, transparency=transparent)).pixels == 255).all()


@pytest.mark.parametrize(("mode", "format"), [("CMYK", "JPEG"), ("CMYK", "TIFF"), ("YCbCr", "TIFF")])
def test_other_colour_spaces_become_rgb(mode, format):
    red = Image.new("RGB", (8, 8), (200, 30, 40))
    picture = decode(encoded(red.convert(mode), format))
    assert picture.mode == mode
    np.testing.assert_allclose(picture.pixels.astype(int), np.asarray(red).astype(int), atol=4)


def test_lab_becomes_rgb():
    picture = decode(encoded(Image.new("LAB", (8, 8), (137, 128, 128)), "TIFF"))  # L* 53.6, no colour: sRGB 128
    assert picture.mode == "LAB"
    np.testing.assert_allclose(picture.pixels.astype(int), 128, atol=2)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_exif_orientation_is_applied(format):
    # White in the stored top left corner; where it belongs is by the EXIF standard.
    stored = Image.new("L", (16, 8), 0)
    stored.paste(255, (0, 0, 8, 4))
    for value, corner in WHITE_CORNER.items():
        pixels = decode(encoded(stored.convert("RGB"), format, exif=orientation(value))).pixels
        assert pixels.shape == ((8, 16, 3) if value <= 4 else (16, 8, 3))
        white = [name for name, (y, x) in CORNERS.items() if pixels[y, x, 0] > 127]
        assert white == [corner], value


CORNERS = {"top left": (1, 1), "top right": (1, -2), "bottom right": (-2, -2), "bottom left": (-2, 1)}
WHITE_CORNER = {
    1: "top left",
    2: "top right",
    3: "bottom right",
    4: "bottom left",
    5: "top left",
    6: "top right",
    7: "bottom right",
    8: "bottom left",
}


def test_orientation_agrees_with_pillow():
    for value in range(1, 9):
        data = encoded(colour(), exif=orientation(value))
        expected = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
        np.testing.assert_array_equal(decode(data).pixels, np.asarray(expected))


def test_damaged_exif_counts_as_none():
    for damage in (b"Exif\0\0", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + bytes(9), b"Exif\0\0" + b"\xff" * 40):
        data = encoded(colour(), exif=damage)
        np.testing.assert_array_equal(decode(data).pixels, COLOUR)


@pytest.mark.parametrize("format", ["GIF", "TIFF", "WEBP", "PNG"])
def test_first_of_several_frames(format):
    frames = [Image.new("RGB", (8, 8), name) for name in ("red", "blue")]
    picture = decode(encoded(frames[0], format, save_all=True, append_images=frames[1:]))
    assert picture.animated
    np.testing.assert_allclose(picture.pixels.astype(int), np.asarray(frames[0]), atol=3)


def test_a_large_image_is_converted_in_strips_like_a_small_one(monkeypatch):
    grey = Image.fromarray(GREY.astype(np.uint16) * 200)
    images = {
        "RGB": encoded(colour()),
        "RGBA": encoded(Image.merge("RGBA", [*colour().split(), Image.fromarray(GREY)])),
        "P": encoded(colour().quantize(16), transparency=bytes(range(16))),
        "1": encoded(Image.fromarray(GREY > 127)),
        "I;16": encoded(grey, transparency=int(GREY[0, 0]) * 200),
        "turned": encoded(colour(), exif=orientation(6)),
        "0 is white": tiff(GREY.astype(np.uint16) * 200, "<", white_is_zero=True),
    }
    whole = {name: decode(data).pixels for name, data in images.items()}
    for strip in (1, 32 * 7, 32 * 24 - 1):
        monkeypatch.setattr(reader, "STRIP", strip)
        for name, data in images.items():
            np.testing.assert_array_equal(decode(data).pixels, whole[name], err_msg=name)


def test_decoding_at_a_size_resizes_and_keeps_the_shape():
    picture = decode(encoded(colour(), exif=orientation(6)), (8, 8))
    assert picture.shape == (32, 24)
    np.testing.assert_array_equal(picture.pixels, resize(decode(encoded(colour(), exif=orientation(6))).pixels, (8, 8)))


def test_resize_squashes_the_whole_image():
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, 40:] = 200
    small = resize(pixels, (10, 10))
    assert small.shape == (10, 10, 3)
    assert (small[:, :4] == 0).all()
    assert (small[:, 6:] == 200).all()


def test_resize_takes_height_and_width():
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, 40:] = 200
    half = resize(pixels, (20, 40))
    assert half.shape == (20, 40, 3)
    assert (half[:, :19] == 0).all()
    assert (half[:, 21:] == 200).all()
    assert decode(encoded(colour()), (9, 20)).pixels.shape == (9, 20, 3)


def test_resize_averages_rather_than_picks():
    checks = np.indices((64, 64)).sum(0) % 2 * 255
    small = resize(np.repeat(checks[:, :, None], 3, axis=2).astype(np.uint8), (8, 8))
    assert np.abs(small.astype(int) - 127).max() <= 2


def test_resize_to_the_same_size_changes_nothing():
    np.testing.assert_array_equal(resize(COLOUR[:, :24], (24, 24)), COLOUR[:, :24])
    assert resize(COLOUR, (24, 32)) is COLOUR


def test_reading_images_does_not_import_torch():
    code = "import sys, normscope.images.doctor, normscope.images.store; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
