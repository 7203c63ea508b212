"""A CSV file to which rows are appended, each safe on the disk before the next; it is also the memory of who writes it.

A row is one line and one write. What a process that was killed left of a last line is cut off when the file is opened
again, so that a row is there as a whole or not at all.
"""

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from normscope.errors import NormscopeError
from normscope.files import sync_folder
from normscope.images.notation import printable
from normscope.locks import lock


@dataclass(frozen=True)
class RowLog:
    path: Path
    file: BinaryIO
    columns: tuple[str, ...]
    rows: list[dict[str, str]]  # that were there when it was opened

    def append(self, row: Mapping[str, object]) -> None:
        """Returns when the row is on the disk."""
        if os.fstat(self.file.fileno()).st_nlink == 0:
            raise NormscopeError(f"{printable(self.path)} was removed; start again to begin a new one")
        write(self.file, line([row[name] for name in self.columns]))


@contextmanager
def opened(path: Path, columns: Sequence[str]) -> Iterator[RowLog]:
    """The log at `path`, for this process alone; a new one if there is none."""
    with path.open("a+b", buffering=0) as opened_file:
        file = cast(BinaryIO, opened_file)
        lock_for_us(file, path)
        file.seek(0)
        yield RowLog(path, file, tuple(columns), mended(file, path, file.read(), columns))


def mended(file: BinaryIO, path: Path, content: bytes, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of the file, which then ends after the last whole one. A file of another kind is left as it is."""
    whole = content[: content.rfind(b"\n") + 1]
    if not whole and line(columns).startswith(content):  # nothing, or a header that was cut off
        file.truncate(0)
        write(file, line(columns))
        sync_folder(path.absolute().parent)
        return []
    rows = read(path, whole or content, columns)
    file.truncate(len(whole))
    return rows


def read(path: Path, content: bytes, columns: Sequence[str]) -> list[dict[str, str]]:
    try:
        rows = list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise NormscopeError(f"{printable(path)} is no CSV file in UTF-8 ({error}); give another") from error
    if rows[0] != list(columns):
        raise NormscopeError(
            f"{printable(path)} has the columns {', '.join(rows[0])}, not {', '.join(columns)}; give another file"
        )
    for number, row in enumerate(rows, start=1):
        if len(row) != len(columns):
            raise NormscopeError(f"{printable(path)}, line {number}: {len(row)} columns; mend it or give another file")
    return [dict(zip(columns, row, strict=True)) for row in rows[1:]]


def line(values: Sequence[object]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC).writerow(values)
    return text.getvalue().encode()


def write(file: BinaryIO, data: bytes) -> None:
    """All of it or an error; a full disk may have taken a part, which the next one to open the file cuts off."""
    if file.write(data) < len(data):
        raise NormscopeError(f"{printable(file.name)} cannot be written: no space left on device")
    os.fsync(file.fileno())


def lock_for_us(file: BinaryIO, path: Path) -> None:
    try:
        lock(file, wait=False)
    except BlockingIOError:
        raise NormscopeError(f"another process writes to {printable(path)}; end it or give another file") from None
