"""Append-only JSON lines: a finished cell is one line, written at once and whole."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from normscope.errors import DatasetError
from normscope.settings import JSON


def append(path: Path, row: Mapping[str, JSON]) -> None:
    """One line in one write, under a lock, so that two runners on one file do not mix."""
    line = json.dumps(row, allow_nan=False) + "\n"
    with path.open("a+b") as file:
        lock(file)
        mend(file)
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def lock(file: BinaryIO) -> None:
    """Until the file is closed; not on Windows, where one runner has the file to itself or two may mix."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)


def mend(file: BinaryIO) -> None:
    """A last line that was cut off goes, as `read` leaves it out; one that only lacks its end gets it."""
    file.seek(0)
    last = file.read().rpartition(b"\n")[2]
    if not last:
        return
    if is_json(last):
        file.write(b"\n")
    else:
        file.truncate(file.tell() - len(last))


def read(path: Path) -> list[dict[str, JSON]]:
    """Every row; none if there is no file. A last line that was cut off is left out."""
    if not path.exists():
        return []
    rows: list[dict[str, JSON]] = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if is_json(line):
            rows.append(json.loads(line))
        elif number < len(lines):
            raise DatasetError(f"{path} line {number} is not a row of results; repair or delete it")
    return rows


def is_json(line: bytes) -> bool:
    """Whether the line is a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
