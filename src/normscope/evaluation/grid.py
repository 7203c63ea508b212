"""Many cells: those already in the file are skipped, the others run in processes, each row written as it comes."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

from normscope.errors import DatasetError, NormscopeError
from normscope.evaluation import results
from normscope.evaluation.protocol import Cell, cell_of, run
from normscope.settings import JSON


def missing(cells: Sequence[Cell], out: Path) -> list[Cell]:
    """The cells that have no row without an error yet."""
    try:
        done = {cell_of(row) for row in results.read(out) if row["error"] is None}
    except KeyError as error:
        raise DatasetError(f"{out} has a row without {error}; give a file that `normscope bench` wrote") from None
    return [cell for cell in cells if cell.key() not in done]


def run_all(cells: Sequence[Cell], out: Path, root: Path | None, jobs: int, threads: int) -> Iterator[dict[str, JSON]]:
    """Runs what is missing and yields each row once it is in the file."""
    todo = missing(cells, out)
    if jobs == 1:
        for cell in todo:
            yield kept(out, run(cell, root, threads))
        return
    with processes(jobs) as pool:
        futures = [pool.submit(run, cell, root, threads) for cell in todo]
        for future in as_completed(futures):
            yield kept(out, future.result())


@contextmanager
def processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Workers that end when the caller does: an error or Ctrl-C does not wait for the cells still to come."""
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), initializer=depend_on_parent)
    try:
        yield pool
    except BaseException as error:
        for worker in multiprocessing.active_children():
            worker.kill()  # rows are written here and not there, so nothing is lost but the cells at work
        if isinstance(error, BrokenProcessPool):
            raise NormscopeError("a worker died, most likely for lack of memory; run again with fewer --jobs") from None
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def depend_on_parent() -> None:
    """Ctrl-C is the parent's to handle; a worker whose parent was killed ends instead of working for nobody."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def kept(out: Path, row: dict[str, JSON]) -> dict[str, JSON]:
    results.append(out, row)
    return row


def threads_for(jobs: int) -> int:
    return max(1, (os.cpu_count() or 1) // jobs)
