"""With workers that answer at once; test_worker.py has the real ones, tests/cli/test_bench.py has all together."""

from concurrent.futures import Future

import pytest

from normscope.benchmark import grid, results
from normscope.benchmark.cell import Cell
from normscope.benchmark.claims import claim
from normscope.benchmark.grid import missing, run_all
from normscope.errors import DatasetError

CELLS = [Cell("digits", "knn", normal, seed, 1.0, {"k": 5}) for normal in range(2) for seed in range(2)]


def result(cell: Cell, **more) -> dict:
    return {**vars(cell), "metrics": {"auroc": 0.9}, "error": None, **more}


class Quick:
    """A worker that keeps the cells it ran."""

    def __init__(self) -> None:
        self.ran: list[Cell] = []
        self.ended = False

    def run(self, cell: Cell) -> dict:
        self.ran.append(cell)
        return result(cell)

    def end(self) -> None:
        self.ended = True


class Stuck(Quick):
    """A worker that answers only when it is ended."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: Future[dict] = Future()

    def run(self, cell: Cell) -> dict:
        super().run(cell)
        return self.answer.result(timeout=30)

    def end(self) -> None:
        super().end()
        self.answer.set_result({"error": "killed"})


def test_finished_cells_are_skipped(tmp_path):
    out, worker = tmp_path / "r", Quick()
    assert len(list(run_all(missing(CELLS[:3], out), [worker]))) == 3
    assert missing(CELLS, out).cells == CELLS[3:]
    assert [each["seed"] for each in run_all(missing(CELLS, out), [worker])] == [1]
    assert worker.ran == CELLS
    assert list(run_all(missing(CELLS, out), [worker])) == []
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_cells_are_shared_among_workers(tmp_path):
    crew = [Quick(), Stuck()]
    running = run_all(missing(CELLS, tmp_path / "r"), crew)
    assert [next(running)["normal"] for _ in range(3)] == [0, 1, 1]
    assert (crew[0].ran, crew[1].ran) == ([CELLS[0], *CELLS[2:]], [CELLS[1]])
    crew[1].answer.set_result(result(CELLS[1]))
    assert next(running)["seed"] == 1
    assert list(running) == []


def test_each_result_is_in_the_file_before_the_next_cell_begins(tmp_path):
    worker = Quick()
    running = run_all(missing(CELLS, tmp_path / "r"), [worker])
    next(running)
    assert len(worker.ran) == 1
    assert len(results.read(tmp_path / "r")) == 1


def test_whoever_stops_ends_the_workers_and_gives_up_the_claims(tmp_path):
    crew = [Quick(), Stuck()]
    running = run_all(missing(CELLS, tmp_path / "r"), crew)
    next(running)
    running.close()
    assert crew[1].ended
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert len(results.read(tmp_path / "r")) == 1


def test_a_cell_that_failed_is_still_missing(tmp_path):
    results.append(tmp_path / "r", result(CELLS[0], metrics=None, error="MemoryError: "))
    assert missing(CELLS, tmp_path / "r").cells == CELLS
    results.append(tmp_path / "r", result(CELLS[0]))
    assert missing(CELLS, tmp_path / "r").cells == CELLS[1:]


def test_a_cell_that_another_process_has_claimed_is_left_to_it(tmp_path):
    other, worker = claim(tmp_path / "r", CELLS[1]), Quick()
    assert len(list(run_all(missing(CELLS, tmp_path / "r"), [worker]))) == 3
    assert worker.ran == [CELLS[0], *CELLS[2:]]
    other.release()
    assert len(list(run_all(missing(CELLS, tmp_path / "r"), [worker]))) == 1


def test_a_cell_that_another_process_has_run_meanwhile_is_not_run_again(tmp_path):
    """Neither one that is finished nor one that failed there; one that had failed before is tried again."""
    results.append(tmp_path / "r", result(CELLS[3], metrics=None, error="MemoryError: "))
    todo, worker = missing(CELLS, tmp_path / "r"), Quick()
    results.append(tmp_path / "r", result(CELLS[0]))
    results.append(tmp_path / "r", result(CELLS[1], metrics=None, error="MemoryError: "))
    assert len(list(run_all(todo, [worker]))) == 2
    assert worker.ran == CELLS[2:]


def test_a_file_that_cannot_be_written_to_ends_it_without_claims_left(tmp_path, monkeypatch):
    def full(path, row):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(grid.results, "append", full)
    with pytest.raises(OSError, match="No space"):
        list(run_all(missing(CELLS, tmp_path / "r"), [Quick()]))
    assert not list(tmp_path.iterdir())


def test_the_same_cells_of_other_images_are_refused(tmp_path):
    results.append(tmp_path / "r", result(CELLS[0], data="abc"))
    results.append(tmp_path / "r", result(CELLS[1]))  # from before checksums were kept
    assert missing(CELLS, tmp_path / "r", "abc").cells == CELLS[2:]
    assert missing(CELLS[1:], tmp_path / "r", "abd").cells == CELLS[2:]
    with pytest.raises(DatasetError, match="from other images of digits; write to another file"):
        missing(CELLS, tmp_path / "r", "abd")


def test_threads_are_shared_among_processes(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert [grid.threads_for(jobs) for jobs in (1, 3, 8, 20)] == [8, 2, 1, 1]
