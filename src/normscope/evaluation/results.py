"""Append-only JSON lines: a finished cell is one line, written at once and whole."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path

from normscope.errors import DatasetError
from normscope.settings import JSON


def append(path: Path, row: Mapping[str, JSON]) -> None:
    """One line in one write, under a lock, so that two runners on one file do not mix."""
    line = json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n"
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def read(path: Path) -> list[dict[str, JSON]]:
    """Every row; none if there is no file. A last line that was cut off is left out."""
    if not path.exists():
        return []
    rows: list[dict[str, JSON]] = []
    lines = path.read_text().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line))
        except ValueError:
            if number == len(lines) and not line.endswith("\n"):
                break
            raise DatasetError(f"{path} line {number} is not JSON; repair or delete it") from None
    return rows
