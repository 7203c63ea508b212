"""A grid of 75 cells of which some fail, and one that is killed on its way."""

import json
import os
import signal
import subprocess
import sys

import pytest

from normscope.benchmark import results
from normscope.benchmark.cell import Cell
from normscope.benchmark.grid import missing, run_all

CELLS = [Cell("digits", "knn", normal, seed, 1.0, {"k": 5}) for normal in range(15) for seed in range(5)]
FAILING = {(3, 1), (7, 4), (14, 0)}


class Frail:
    """A worker at which three cells fail, and which kills its process (kill -9) at the cell number `last`."""

    def __init__(self, last=None) -> None:
        self.ran, self.last = 0, last

    def run(self, cell):
        if self.ran == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.ran += 1
        failed = (cell.normal, cell.seed) in FAILING
        outcome = {"metrics": None, "error": "MemoryError: "} if failed else {"metrics": {"auroc": 0.9}, "error": None}
        return {**vars(cell), **outcome}

    def end(self) -> None:
        pass


def count(path):
    found = results.read(path)
    return sum(one["error"] is None for one in found), sum(one["error"] is not None for one in found)


def test_three_failures_of_75_cells_cost_three_cells(tmp_path, tally):
    out = tmp_path / "r"
    assert len(list(run_all(missing(CELLS, out), [Frail()]))) == 75
    assert count(out) == (72, 3)
    again = missing(CELLS, out).cells
    assert {(cell.normal, cell.seed) for cell in again} == FAILING
    tally("grid: cells of which three fail, 72 results and 3 errors", 75, 75 - sum(count(out)))


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parent))
from test_grid import CELLS, Frail
from normscope.benchmark.grid import missing, run_all
for _ in run_all(missing(CELLS, Path(sys.argv[2])), [Frail(last=40)]):
    pass
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_grid_killed_after_forty_cells_keeps_forty(tmp_path, tally):
    out = tmp_path / "r"
    assert subprocess.run([sys.executable, "-c", KILLED, __file__, out]).returncode == -signal.SIGKILL
    kept = sum(count(out))
    assert kept == 40
    worker = Frail()
    list(run_all(missing(CELLS, out), [worker]))
    failed_before = sum((cell.normal, cell.seed) in FAILING for cell in CELLS[:40])
    assert worker.ran == 35 + failed_before
    assert count(out)[0] == 72
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    tally("grid: results kept by a kill -9 after 40 cells", 40, 40 - kept)


@pytest.mark.soak
def test_a_real_grid_killed_after_forty_cells_keeps_forty(tmp_path, tally):
    out, script = tmp_path / "r", "from normscope.cli import main; main()"
    options = [
        "--methods",
        "knn,pca,random-encoder",
        "--classes",
        "0,1,2,3,4",
        "--seeds",
        "5",
        "--threads",
        "1",
        "--json",
    ]
    command = [sys.executable, "-c", script, "bench", "digits", "--out", str(out), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    for _ in range(40):
        json.loads(process.stdout.readline())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    kept = len(results.read(out))
    assert kept >= 40
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0
    assert count(out) == (75, 0)
    tally("grid: a real one killed after 40 cells and started again", 75, 75 - sum(count(out)))
