import json
import multiprocessing
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from normscope.errors import DatasetError
from normscope.evaluation import grid, results
from normscope.evaluation.protocol import Cell

CELLS = [Cell("digits", "knn", normal, seed, 1.0, {"k": 5}) for normal in range(2) for seed in range(2)]


def row(cell: Cell, root=None, threads=1) -> dict:
    return {**vars(cell), "error": None}


@pytest.fixture
def ran(monkeypatch) -> list[Cell]:
    """The cells that were really run."""
    cells: list[Cell] = []
    monkeypatch.setattr(grid, "run", lambda cell, root, threads: cells.append(cell) or row(cell))
    return cells


def test_finished_cells_are_skipped(tmp_path, ran):
    out = tmp_path / "r"
    assert len(list(grid.run_all(CELLS[:3], out, None, 1, 1))) == 3
    assert grid.missing(CELLS, out) == CELLS[3:]
    assert [one["seed"] for one in grid.run_all(CELLS, out, None, 1, 1)] == [1]
    assert ran == CELLS
    assert list(grid.run_all(CELLS, out, None, 1, 1)) == []


def test_each_row_is_in_the_file_before_the_next_cell_begins(tmp_path, ran):
    rows = grid.run_all(CELLS, tmp_path / "r", None, 1, 1)
    next(rows)
    assert len(ran) == 1
    assert len(results.read(tmp_path / "r")) == 1


def test_a_cell_that_failed_is_still_missing(tmp_path):
    results.append(tmp_path / "r", {**row(CELLS[0]), "error": "MemoryError: "})
    assert grid.missing(CELLS, tmp_path / "r") == CELLS
    results.append(tmp_path / "r", row(CELLS[0]))
    assert grid.missing(CELLS, tmp_path / "r") == CELLS[1:]


def test_rows_of_something_else_are_named(tmp_path):
    (tmp_path / "r").write_text(json.dumps({"error": None, "dataset": "digits"}) + "\n")
    with pytest.raises(DatasetError, match="a row without 'method'"):
        grid.missing(CELLS, tmp_path / "r")


def test_the_same_cells_of_other_images_are_refused(tmp_path):
    results.append(tmp_path / "r", {**row(CELLS[0]), "data": "abc"})
    assert grid.missing(CELLS, tmp_path / "r", "abc") == CELLS[1:]
    with pytest.raises(DatasetError, match="from other images of digits; write to another file"):
        grid.missing(CELLS, tmp_path / "r", "abd")


def test_threads_are_shared_among_processes(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert [grid.threads_for(jobs) for jobs in (1, 3, 8, 20)] == [8, 2, 1, 1]


def start_long_work_and_interrupt(tmp_path) -> None:
    cells = [Cell("digits", "surprisal", normal, 0, 60.0, {}) for normal in range(4)]
    for _ in grid.run_all([CELLS[0], *cells], tmp_path / "r", None, 2, 1):
        raise KeyboardInterrupt


def test_an_interrupt_does_not_wait_for_the_cells_still_to_come(tmp_path):
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        start_long_work_and_interrupt(tmp_path)
    assert time.perf_counter() - began < 50
    assert len(results.read(tmp_path / "r")) == 1


def test_a_worker_that_dies_is_an_error_of_its_cell_and_of_no_other(tmp_path):
    long = Cell("digits", "surprisal", 0, 0, 60.0, {})
    rows = grid.run_all([long, *CELLS], tmp_path / "r", None, 2, 1)
    found = [next(rows)]
    for worker in multiprocessing.active_children():
        worker.kill()
        worker.join()
    found += rows
    assert {one["method"]: one["error"] for one in found}["surprisal"].startswith("the worker died (killed by SIGKILL")
    assert [one["error"] for one in found if one["method"] == "knn"] == [None] * 4
    assert grid.missing([long, *CELLS], tmp_path / "r") == [long]


ORPHAN = """
import os, signal
from normscope.evaluation.grid import Worker
if __name__ == "__main__":
    print(Worker().process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_does_not_outlive_a_killed_parent(tmp_path):
    (tmp_path / "orphan.py").write_text(ORPHAN)
    parent = subprocess.run([sys.executable, tmp_path / "orphan.py"], capture_output=True, text=True, timeout=120)
    worker = Path("/proc") / parent.stdout.strip()
    if not worker.parent.exists():
        pytest.skip("no /proc to look at")
    assert parent.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while worker.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not worker.exists()
