"""Many cells: those already in the file are skipped, the others run in processes, each row written as it comes."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from normscope.evaluation import results
from normscope.evaluation.protocol import Cell, cell_of, run
from normscope.settings import JSON


def missing(cells: Sequence[Cell], out: Path) -> list[Cell]:
    """The cells that have no row without an error yet."""
    done = {cell_of(row) for row in results.read(out) if row["error"] is None}
    return [cell for cell in cells if cell.key() not in done]


def run_all(cells: Sequence[Cell], out: Path, root: Path | None, jobs: int, threads: int) -> Iterator[dict[str, JSON]]:
    """Runs what is missing and yields each row once it is in the file."""
    todo = missing(cells, out)
    if jobs == 1:
        for cell in todo:
            yield kept(out, run(cell, root, threads))
        return
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(run, cell, root, threads) for cell in todo]
        for future in as_completed(futures):
            yield kept(out, future.result())


def kept(out: Path, row: dict[str, JSON]) -> dict[str, JSON]:
    results.append(out, row)
    return row


def threads_for(jobs: int) -> int:
    return max(1, (os.cpu_count() or 1) // jobs)
