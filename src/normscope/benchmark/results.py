"""A file of results: append-only JSON lines, one for each finished cell, each written at once and whole."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, TypeAlias

from normscope.errors import DatasetError
from normscope.locks import lock
from normscope.settings import JSON

Result: TypeAlias = dict[str, JSON]
"""One line of such a file: what was to be measured, what came out, with which version and on which machine."""


def append(path: Path, result: Mapping[str, JSON]) -> None:
    """One line in one write, under a lock, so that processes that share a file do not mix their lines."""
    line = json.dumps(result, allow_nan=False) + "\n"
    with path.open("a+b") as file:
        lock(file)
        mend(file)
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def mend(file: BinaryIO) -> None:
    """Removes a last line that was cut off; ends one that only lacks its line end."""
    file.seek(0)
    last = file.read().rpartition(b"\n")[2]
    if is_cut_off(last):
        file.truncate(file.tell() - len(last))
    elif last:
        file.write(b"\n")


def read(path: Path) -> list[Result]:
    """Every result, line by line; none if there is no file. A last line that was cut off is left out."""
    if not path.exists():
        return []
    *lines, last = path.read_bytes().split(b"\n")
    if last and not is_cut_off(last):
        lines.append(last)
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(parse(line))
        except ValueError as error:
            raise DatasetError(f"{path} line {number} is not a result: {error}; repair or delete it") from None
    return found


def is_cut_off(line: bytes) -> bool:
    """Whether it is the beginning of a JSON object: writing it was interrupted."""
    if not line.startswith(b"{"):
        return False
    try:
        json.loads(line, parse_int=str)
    except ValueError:
        return True
    except RecursionError:
        return False
    return False


def parse(line: bytes) -> Result:
    """Raises a ValueError that says what is wrong. Every number is finite and fits into 64 bits."""
    try:
        result = json.loads(line, parse_constant=finite, parse_float=finite, parse_int=whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError("it is not JSON") from None
    if not isinstance(result, dict):
        raise ValueError("it is not a JSON object")
    return result


def finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def whole(text: str) -> int:
    if len(text) > 18:
        raise ValueError(f"{text[:18]}… has too many digits")
    return int(text)
