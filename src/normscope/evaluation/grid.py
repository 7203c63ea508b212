"""Many cells: those already in the file are skipped, the others run in processes, each row written as it comes."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import cast

from normscope.errors import DatasetError
from normscope.evaluation import results
from normscope.evaluation.protocol import Cell, blank, cell_of, run
from normscope.settings import JSON

Row = dict[str, JSON]


def missing(cells: Sequence[Cell], out: Path, data: str | None = None) -> list[Cell]:
    """The cells that have no row without an error yet; rows of other data than those with the checksum are refused."""
    try:
        done = {cell_of(row): row for row in results.read(out) if row["error"] is None}
    except KeyError as error:
        raise DatasetError(f"{out} has a row without {error}; give a file that `normscope bench` wrote") from None
    if data and any(done[cell.key()].get("data", data) != data for cell in cells if cell.key() in done):
        raise DatasetError(f"{out} has these cells from other images of {cells[0].dataset}; write to another file")
    return [cell for cell in cells if cell.key() not in done]


def run_all(cells: Sequence[Cell], out: Path, root: Path | None, jobs: int, threads: int) -> Iterator[Row]:
    """Runs what is missing and yields each row once it is in the file."""
    todo = missing(cells, out)
    rows = (run(cell, root, threads) for cell in todo) if jobs == 1 else in_processes(todo, root, jobs, threads)
    for row in rows:
        results.append(out, row)
        yield row


def in_processes(cells: Sequence[Cell], root: Path | None, jobs: int, threads: int) -> Iterator[Row]:
    """The rows as they come. A worker that dies makes its cell's row an error, and another takes its place."""
    waiting, busy = deque(cells), dict[Connection, tuple[Worker, Cell]]()
    idle = [Worker() for _ in range(min(jobs, len(cells)))]
    try:
        while waiting or busy:
            while idle and waiting:
                worker, cell = idle.pop(), waiting.popleft()
                worker = worker if worker.process.is_alive() else Worker()
                worker.pipe.send((cell, root, threads))
                busy[worker.pipe] = worker, cell
            for pipe in wait(busy):
                worker, cell = busy.pop(cast(Connection, pipe))
                row = worker.row()
                idle.append(worker)
                yield row or {
                    **blank(cell, threads),
                    "error": f"the worker died ({worker.fate()}); run with fewer --jobs",
                }
    finally:
        for worker in [*idle, *(worker for worker, _ in busy.values())]:
            worker.process.kill()  # rows are written here and not there, so nothing is lost but the cells at work


class Worker:
    """A process that runs one cell after another; it ends when its parent does."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()  # so that ours ends with the process

    def row(self) -> Row | None:
        """None from a worker that died at its work."""
        try:
            return cast(Row, self.pipe.recv())
        except (EOFError, OSError):
            return None

    def fate(self) -> str:
        self.process.join()
        code = self.process.exitcode or 0
        return f"killed by {signal.Signals(-code).name}, most likely for lack of memory" if code < 0 else f"exit {code}"


def work(pipe: Connection) -> None:
    """Ctrl-C is the parent's to handle; a worker whose parent was killed ends instead of working for nobody."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    while True:
        cell, root, threads = pipe.recv()
        pipe.send(run(cell, root, threads))


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def threads_for(jobs: int) -> int:
    return max(1, (os.cpu_count() or 1) // jobs)
