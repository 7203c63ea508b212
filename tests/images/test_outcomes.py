import os
import sys
from pathlib import Path

import pytest

from normscope.images.outcome import FileOutcome, Kind
from normscope.images.outcomes import Outcomes

NAMES = [
    "a.png",
    "/",
    ".",
    "..",
    "/a.png",
    "a/b.png",
    "a/b/c",
    "a/ü.png",
    "a/x\ny",
    os.fsdecode(b"\xff/\xff"),
    "\ud800",
]
GIVEN = [
    *(FileOutcome(Path(name)) for name in NAMES),
    FileOutcome(Path("a/b.png"), Kind.UNREADABLE, "broken link"),
    FileOutcome(Path(".hidden"), Kind.IGNORED, "hidden"),
]


def test_outcomes_come_out_as_they_went_in():
    found = Outcomes(GIVEN)
    assert [*found] == GIVEN
    assert len(found) == len(GIVEN)
    assert found[-1] == GIVEN[-1]
    assert found[2:9:3] == GIVEN[2:9:3]
    assert [found.path(position) for position in range(len(NAMES))] == [str(Path(name)) for name in NAMES]
    with pytest.raises(IndexError):
        found[len(GIVEN)]


def test_an_image_takes_few_bytes():
    found = Outcomes(FileOutcome(Path(f"/some/folder/{number // 1000:04}/{number:06}.bmp")) for number in range(10_000))
    kept = sum(sys.getsizeof(value) for value in vars(found).values())
    assert kept < 30 * len(found)
