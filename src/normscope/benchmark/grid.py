"""Many cells: those that a file of results lacks are run by workers, and each result is written as it comes."""

import os
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple, Protocol

from normscope.benchmark import measurement, results
from normscope.benchmark.cell import Cell
from normscope.benchmark.claims import claim
from normscope.benchmark.results import Result
from normscope.errors import DatasetError
from normscope.locks import Held
from normscope.training.interrupt import Stop

POLL_SECONDS = 0.2


class Runner(Protocol):
    """Runs a cell at a time: a process of this machine (`worker.Worker`), or a task somewhere in a cluster."""

    def run(self, cell: Cell) -> Result: ...
    def checksum(self, dataset: str) -> str: ...
    def end(self) -> None: ...


class Todo(NamedTuple):
    """Cells of which the first `lines` lines of `out` have no result, or one with an error."""

    cells: list[Cell]
    out: Path
    lines: int


def missing(cells: Sequence[Cell], out: Path, data: str | None = None) -> Todo:
    """Results of the same cells on other data than those with the checksum `data` are refused."""
    measurements = measurement.read(out)
    finished = {m.cell.key(): m for m in measurements if m.error is None}
    known = {finished[cell.key()].data for cell in cells if cell.key() in finished}
    if data and known - {data, None}:
        raise DatasetError(f"{out} has these cells from other images of {cells[0].dataset}; write to another file")
    return Todo([cell for cell in cells if cell.key() not in finished], out, len(measurements))


def run_all(todo: Todo, workers: Sequence[Runner], stop: Stop | None = None) -> Generator[Result, None, None]:
    """Yields each result once it is in the file. Cells that another process has claimed are left to it.

    Once `stop` is requested, the cells at work are given up.
    """
    claimed, idle, busy = claims(todo), deque(workers), dict[Future[Result], tuple[Runner, Held]]()
    with ThreadPoolExecutor(len(workers)) as pool:  # its threads only wait for the workers' answers
        try:
            while True:
                while idle and (taken := next(claimed, None)):
                    cell, lock = taken
                    worker = idle.popleft()
                    busy[pool.submit(worker.run, cell)] = worker, lock
                if not busy:
                    return
                if stop is not None:
                    stop.raise_if_requested()
                for future in wait(busy, POLL_SECONDS, FIRST_COMPLETED).done:
                    worker, lock = busy.pop(future)
                    idle.append(worker)
                    yield written(todo.out, future.result(), lock)
        finally:
            for worker, lock in busy.values():
                worker.end()  # nothing is lost but the cells at work: results are written here
                lock.release()


def claims(todo: Todo) -> Iterator[tuple[Cell, Held]]:
    """Cells that no other process is running, or has run since `todo` was made."""
    for cell in todo.cells:
        lock = claim(todo.out, cell)
        if lock is None:
            continue
        if any(m.cell.key() == cell.key() for m in measurement.read(todo.out)[todo.lines :]):
            lock.release()
            continue
        yield cell, lock


def written(out: Path, result: Result, lock: Held) -> Result:
    try:
        results.append(out, result)
    finally:
        lock.release()
    return result


def threads_for(jobs: int) -> int:
    """The processor's cores shared among so many processes."""
    return max(1, (os.cpu_count() or 1) // jobs)
