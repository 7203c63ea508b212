"""Which cells this process runs, so that processes that write to one file of results share the cells."""

import hashlib
from pathlib import Path

from normscope.benchmark.cell import Cell
from normscope.locks import Held, hold


def claim(out: Path, cell: Cell) -> Held | None:
    """A lock on a file of the cell's own, beside the results; None if another process has claimed the cell."""
    out = out.resolve()
    name = hashlib.sha256(repr(cell.key()).encode()).hexdigest()[:16]
    return hold(out.with_name(f".{out.name}.{name}.claim"))
