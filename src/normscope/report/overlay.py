"""One picture for one image: as it is, beside it where it is surprising, below both what the colours mean."""

import numpy as np

from normscope.report.colours import HOTTEST, on_scale, palette
from normscope.report.layer import HOT, laid_over, layer
from normscope.report.picture import Heat, Pixels, draw_text, enlarged, text_width

__all__ = ["LONGEST", "overlay"]

LONGEST, SHORTEST = 1600, 192  # pixels of the longer side: larger images are shrunk, smaller ones enlarged
COLOURS = 250
LEGEND = "outlined: hotter than 99 of 100 normal images are anywhere"


def overlay(pixels: Pixels, heat: Heat, caption: str) -> Pixels:
    """The image [h, w, 3], its longer side at most LONGEST, beside its heat map; captions are cut to fit."""
    pixels = enlarged(pixels, SHORTEST)
    height, width = pixels.shape[:2]
    unit = max(max(height, width) // 50, 13)  # size of the letters, from which all distances follow
    indices = layer(heat, (height, width), COLOURS, max(max(height, width) // 400, 1))
    pictures = [pixels, laid_over(pixels, indices, palette(COLOURS))]
    return beside(pictures, legend(unit), caption, unit)


def beside(pictures: list[Pixels], legend: Pixels, caption: str, unit: int) -> Pixels:
    """On white, the caption and the legend below."""
    height, width = pictures[0].shape[:2]
    canvas = np.full(
        (height + 4 * unit + len(legend), max(2 * width + unit, legend.shape[1]) + 2 * unit, 3), 255, np.uint8
    )
    for left, picture in zip((unit, 2 * unit + width), pictures, strict=True):
        canvas[unit : unit + height, left : left + width] = picture
    below = 2 * unit + height
    draw_text(canvas, cut(caption, unit, canvas.shape[1] - 2 * unit), unit, below, unit)
    canvas[below + 2 * unit :, unit : unit + legend.shape[1]] = legend
    return canvas


def legend(unit: int) -> Pixels:
    """The colours as they are over grey, what heat they stand for, and what the outline means."""
    width = 16 * unit
    bar = (np.arange(width) * COLOURS // width).astype(np.uint8)[None].repeat(unit, 0)
    canvas = np.full((5 * unit, max(width, text_width(LEGEND, unit)), 3), 255, np.uint8)
    canvas[:unit, :width] = laid_over(np.full((*bar.shape, 3), 150, np.uint8), bar, palette(COLOURS))
    canvas[: round(1.2 * unit), width // 2] = 60
    for heat, label, aligned in ((0.0, "0", 0.0), (HOT, "1", 0.5), (HOTTEST, f"{HOTTEST:g} and more", 1.0)):
        left = float(on_scale(heat)) * width - aligned * text_width(label, unit)
        draw_text(canvas, label, round(left), round(1.2 * unit), unit)
    draw_text(canvas, LEGEND, 0, 3 * unit, unit)
    return canvas


def cut(text: str, size: int, width: int) -> str:
    """The end of a text that is too long, for there is the name of a file."""
    if text_width(text, size) <= width:
        return text
    while text and text_width("..." + text, size) > width:
        text = text[max(len(text) // 20, 1) :]
    return "..." + text
