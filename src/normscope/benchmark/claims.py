"""Which cells this process runs, so that processes that write to one file of results share the cells."""

import hashlib
import os
import sys
from pathlib import Path
from typing import BinaryIO, NamedTuple

from normscope.benchmark.cell import Cell
from normscope.benchmark.results import lock


class Claim(NamedTuple):
    """A lock on a file of the cell's own, beside the results; the system drops it when the process ends, however."""

    path: Path
    file: BinaryIO

    def release(self) -> None:
        if sys.platform == "win32":  # where an open file cannot be removed, and locks nothing
            self.file.close()
            self.path.unlink()
        else:
            self.path.unlink()
            self.file.close()


def claim(out: Path, cell: Cell) -> Claim | None:
    """None if another process has claimed the cell."""
    out = out.resolve()
    name = hashlib.sha256(repr(cell.key()).encode()).hexdigest()[:16]
    path = out.with_name(f".{out.name}.{name}.claim")
    while True:
        file = path.open("ab")
        try:
            lock(file, wait=False)
        except BlockingIOError:
            file.close()
            return None
        if os.fstat(file.fileno()).st_nlink:
            return Claim(path, file)
        file.close()  # released, and thus removed, after it was opened here: it locks nothing any more
