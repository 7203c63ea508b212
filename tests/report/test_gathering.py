from pathlib import Path

import numpy as np
import pytest

from normscope.errors import ImageError
from normscope.model import Scored
from normscope.report import gathering
from normscope.report.gathering import Gathering


def scored(score: float | None) -> Scored:
    row = {"path": f"{score}.png", "score": score, "p_value": 0.5, "anomalous": False, "error": None}
    return Scored(row, None)


@pytest.fixture
def few(monkeypatch):
    """Pictures of three images are kept, and reading one is counted."""
    read = []
    monkeypatch.setattr(gathering, "MOST_PICTURES", 3)
    monkeypatch.setattr(gathering, "read", lambda path, side: read.append(path) or np.zeros((9, 9, 3), np.uint8))
    return read


def test_pictures_are_kept_of_the_highest_scores_alone(few):
    found = Gathering(8)
    for score in (1.0, 5.0, 3.0, None, 2.0, 9.0, 0.5, 0.1):
        found.add(Path("x"), scored(score))
        assert len(found.thumbnails) <= 3
    assert len(found.rows) == 8
    assert sorted(found.rows[position]["score"] for position in found.thumbnails) == [3.0, 5.0, 9.0]
    assert len(few) == 5  # 0.5 and 0.1 are not read again


def test_equal_scores_are_all_the_same_to_it(few):
    found = Gathering(9)
    for _ in range(9):
        found.add(Path("x"), scored(1.0))
    assert sorted(found.thumbnails) == [0, 1, 2]
    assert len(few) == 3


def test_an_image_that_is_gone_meanwhile_is_a_row_without_a_picture(monkeypatch):
    def gone(path, side):
        raise ImageError("gone")

    monkeypatch.setattr(gathering, "read", gone)
    found = Gathering(1)
    found.add(Path("x"), scored(1.0))
    assert len(found.rows) == 1
    assert not found.thumbnails


def test_fewer_images_have_larger_pictures():
    assert Gathering(1).most_bytes == 40_000
    assert Gathering(1000).most_bytes == Gathering(10_000).most_bytes
    assert 2000 < Gathering(1000).most_bytes < Gathering(300).most_bytes
