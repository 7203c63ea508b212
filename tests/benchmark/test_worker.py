"""The worker is a real process, shared by those tests that leave it alive."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from normscope.benchmark.cell import Cell
from normscope.benchmark.worker import Worker, workers
from normscope.datasets import digits
from normscope.errors import DatasetError

CELL = Cell("digits", "knn", 0, 0, 1.0, {"k": 5})
LOUD_AND_FRAIL = """
import os, runpy, sys
from normscope.benchmark import protocol

run = protocol.run

def loud_and_frail(cell, root):
    print("printed by a library", flush=True)
    if cell.seed == 13:
        os.kill(os.getpid(), 9)
    return run(cell, root)

protocol.run = loud_and_frail
runpy.run_module("normscope.benchmark.worker", run_name="__main__")
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    with workers(1, tmp_path_factory.mktemp("data"), 2) as (one,):
        assert one.command[1:4] == ["-P", "-m", "normscope.benchmark.worker"]
        one.command[1:4] = ["-c", LOUD_AND_FRAIL]
        yield one


def test_it_tells_the_checksum_and_runs_cells_whatever_is_printed_there(worker):
    assert worker.checksum("digits") == digits.load().sha256
    result = worker.run(CELL)
    assert (result["error"], result["data"], result["threads"]) == (None, digits.load().sha256, 2)
    assert result["settings"] == {"k": 5}
    assert result["metrics"]["auroc"] > 0.99


def test_data_that_cannot_be_read_are_an_error_and_not_its_end(worker):
    before = worker.process
    with pytest.raises(DatasetError, match="mnist"):
        worker.checksum("mnist")
    assert worker.run(Cell("mnist", "knn", 0, 0, 1.0, {}))["error"].startswith("DatasetError: ")
    assert worker.process is before


def test_one_that_dies_is_an_error_of_its_cell_and_is_replaced(worker):
    result = worker.run(replace(CELL, seed=13))
    assert (
        result["error"] == "the process died (killed by SIGKILL, most likely for lack of memory: run fewer at a time)"
    )
    assert (result["dataset"], result["metrics"], result["threads"]) == ("digits", None, 2)
    assert worker.run(CELL)["error"] is None


def test_one_that_cannot_even_start_is_an_error():
    with workers(1, None, 1) as (one,):
        one.command = [sys.executable, "-c", "raise SystemExit(7)"]
        with pytest.raises(DatasetError, match=r"digits: the process died \(exit 7\)"):
            one.checksum("digits")
        assert one.run(CELL)["error"] == "the process died (exit 7)"


def test_one_that_was_ended_is_not_started_again():
    one = Worker(None, 1)
    one.end()
    assert one.ask({"dataset": "digits"}) is None
    assert one.process is None


ORPHAN = """
import os, signal
from normscope.benchmark.worker import Worker
print(Worker(None, 1).started().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_does_not_outlive_a_killed_parent():
    parent = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, text=True, timeout=120)
    process = Path("/proc") / parent.stdout.strip()
    if not process.parent.exists():
        pytest.skip("no /proc to look at")
    assert parent.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 60
    while process.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not process.exists()
