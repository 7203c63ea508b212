"""A grid of 75 cells of which some fail, and one that is killed on its way."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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


@pytest.mark.counted
def test_three_failures_of_75_cells_cost_three_cells(tmp_path, tally):
    out = tmp_path / "r"
    assert len(list(run_all(missing(CELLS, out), [Frail()]))) == 75
    good, failed = count(out)
    again = missing(CELLS, out).cells
    assert {(cell.normal, cell.seed) for cell in again} == FAILING
    tally("grid: cells of which three fail, 72 results and 3 errors", 75, abs(72 - good) + abs(3 - failed))


KILLED = """
import sys
import time
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parent))
from test_grid import CELLS, Frail
from normscope.benchmark.grid import missing, run_all
for _ in run_all(missing(CELLS, Path(sys.argv[2])), [Frail(last=40)]):
    pass
"""


@pytest.mark.counted
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_grid_killed_after_forty_cells_keeps_forty(tmp_path, tally):
    out = tmp_path / "r"
    assert subprocess.run([sys.executable, "-c", KILLED, __file__, out]).returncode == -signal.SIGKILL
    kept = sum(count(out))
    worker = Frail()
    list(run_all(missing(CELLS, out), [worker]))
    failed_before = sum((cell.normal, cell.seed) in FAILING for cell in CELLS[:40])
    assert worker.ran == 35 + failed_before
    assert count(out)[0] == 72
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    tally("grid: results kept by a kill -9 after 40 cells", 40, abs(40 - kept))


BENCH = ["--methods", "knn,pca,random-encoder", "--classes", "0,1,2,3,4", "--seeds", "5", "--threads", "1", "--json"]


def bench(out):
    return [
        sys.executable,
        "-c",
        "from normscope.cli import main; main()",
        "bench",
        "digits",
        "--out",
        str(out),
        *BENCH,
    ]


@pytest.mark.soak
def test_a_real_grid_killed_after_forty_cells_keeps_forty(tmp_path, tally):
    out = tmp_path / "r"
    process = subprocess.Popen(bench(out), stdout=subprocess.PIPE, text=True, start_new_session=True)
    seen = [json.loads(process.stdout.readline()) for _ in range(40)]
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    kept = results.read(out)
    lost = sum(one not in kept for one in seen)
    assert subprocess.run(bench(out), stdout=subprocess.DEVNULL).returncode == 0
    lost += sum(one not in results.read(out) for one in kept)
    found = {(one["method"], one["normal"], one["seed"]) for one in results.read(out) if one["error"] is None}
    assert len(results.read(out)) == 75, "a cell was run twice"
    tally("grid: a real one of 75 cells killed after 40 and started again", 75, lost + 75 - len(found))


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux tells which processes another started")
def test_three_workers_killed_in_a_real_grid_cost_three_cells(tmp_path, tally):
    """The process at work is killed (kill -9) after ten cells, and again until three cells have failed."""
    out, failed = tmp_path / "r", 0
    with subprocess.Popen(bench(out), stdout=subprocess.PIPE, text=True) as process:
        for number, line in enumerate(process.stdout, start=1):
            failed += json.loads(line)["error"] is not None
            if number >= 10 and failed < 3:
                time.sleep(0.03)  # it may not have the next cell yet
                for worker in worker_of(process.pid):
                    os.kill(worker, signal.SIGKILL)
    assert process.returncode in (0, 3)
    good, failed = count(out)
    errors = [one["error"] for one in results.read(out) if one["error"] is not None]
    assert all("the process died (killed by SIGKILL" in error for error in errors)
    lost = abs(72 - good) + abs(3 - failed)
    assert subprocess.run(bench(out), stdout=subprocess.DEVNULL).returncode == 0
    lost += abs(75 - count(out)[0])
    tally("grid: a real one of 75 cells with three workers killed, 72 results and 3 errors", 75, lost)


def worker_of(pid):
    found = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in children_of(task)]
    return [child for child in found if b"worker" in Path(f"/proc/{child}/cmdline").read_bytes()]


def children_of(task):
    return [int(one) for one in (task / "children").read_text().split()]
