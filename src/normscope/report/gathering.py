"""What a report needs of each image, gathered as they are scored: every row, and thumbnails of the highest scores."""

import heapq
from pathlib import Path

from normscope.errors import ImageError
from normscope.model import Row, Scored
from normscope.report.picture import read
from normscope.report.thumbnail import Thumbnail, longest_side, thumbnail

__all__ = ["MOST_PICTURES", "Gathering"]

MOST_PICTURES = 1000
ALL_BYTES = 4_400_000  # of a page with that many pictures, of which each row has so many besides its picture
ROW_BYTES = 700
MOST_BYTES = 40_000  # of one picture, however few there are


class Gathering:
    """Rows in the order of scoring, and thumbnails by their position among them, for the highest scores alone."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.rows: list[Row] = []
        self.thumbnails: dict[int, Thumbnail] = {}
        self.shown: list[tuple[float, int]] = []  # a heap of scores and negative positions: the lowest score first
        share = ALL_BYTES // min(max(expected, 1), MOST_PICTURES)
        self.most_bytes = min((share - ROW_BYTES) * 3 // 4, MOST_BYTES)  # four letters are three bytes

    def add(self, path: Path, scored: Scored) -> None:
        position, score = len(self.rows), scored.row["score"]
        self.rows.append(scored.row)
        if score is None:
            return
        entry = (score, -position)
        if len(self.shown) == MOST_PICTURES:
            if entry < self.shown[0]:
                return
            self.thumbnails.pop(-heapq.heappop(self.shown)[1], None)
        heapq.heappush(self.shown, entry)
        try:
            pixels = read(path, longest_side(self.most_bytes))
        except ImageError:  # it was readable a moment ago: a row without a picture
            return
        self.thumbnails[position] = thumbnail(pixels, scored.heat, self.most_bytes)
