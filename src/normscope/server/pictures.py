"""An uploaded image and its heat map as data URLs: the image as WebP, and a PNG to be laid over it."""

from pathlib import Path

from normscope.errors import ImageError
from normscope.model import Scored
from normscope.report.picture import read
from normscope.report.rows import data
from normscope.report.thumbnail import longest_side, thumbnail

__all__ = ["pictures"]

MOST_BYTES = 24_000  # of both


def pictures(path: Path, scored: Scored) -> dict[str, str | None]:
    """`picture` and `heatmap`; None of an image that cannot be read, and of a model that has no heat maps."""
    found: dict[str, str | None] = {"picture": None, "heatmap": None}
    if scored.row["score"] is None:
        return found
    try:
        small = thumbnail(read(path, longest_side(MOST_BYTES)), scored.heat, MOST_BYTES)
    except ImageError:
        return found
    found["picture"] = data("webp", small.image)
    if small.heat:
        found["heatmap"] = data("png", small.heat)
    return found
