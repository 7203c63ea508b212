import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from normscope.benchmark import protocol
from normscope.benchmark.cell import Cell
from normscope.datasets import digits

KEYS = {"dataset", "method", "settings", "normal", "seed", "metrics", "seconds", "images_per_second"}
KEYS |= {"version", "commit", "device", "health", "error", "intervals", "protocol", "data"}


@pytest.fixture
def bench(run, tmp_path, in_this_process):
    def once(*options: object, methods: str = "knn", classes: str = "0,1"):
        return run("bench", "digits", "--methods", methods, "--classes", classes, "--out", tmp_path / "r", *options)

    return once


def test_a_result_for_each_cell_and_none_the_second_time(bench, tmp_path):
    code, out, err = bench("--json")
    results = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert err == f"2 cells, 0 already in {tmp_path / 'r'}\n"
    assert [json.loads(line) for line in (tmp_path / "r").read_text().splitlines()] == results
    for number, result in enumerate(results):
        assert result.keys() >= KEYS
        assert (result["dataset"], result["method"], result["normal"], result["seed"]) == ("digits", "knn", number, 0)
        assert result["metrics"].keys() == {"auroc", "auprc", "fpr95", "tpr_at_fpr_01", "tpr_at_fpr_05"}
        assert result["metrics"]["auroc"] > 0.95
        assert result["seconds"].keys() == {"fit", "score"}
        assert (result["settings"], result["budget"]) == ({"k": 5}, 120)
        assert (result["health"], result["error"], result["device"]) == ("ok", None, "cpu")
    before = (tmp_path / "r").read_bytes()
    assert bench("--json") == (0, "", f"2 cells, 2 already in {tmp_path / 'r'}\n")
    assert (tmp_path / "r").read_bytes() == before


def test_another_setting_seed_or_budget_is_another_cell(bench):
    bench(classes="0")
    for options in (["--set", "k=3"], ["--budget", "3m"]):
        assert bench(*options, classes="0").err.startswith("1 cell, 0 already")
    assert bench("--seeds", "2", classes="0").err.startswith("2 cells, 1 already")


def test_classes_and_methods_are_named_in_any_way_and_measured_once(bench):
    code, out, err = bench(methods="knn, knn", classes="3, 4,3")
    assert code == 0
    assert err.startswith("2 cells, ")
    assert [line.split()[3] for line in out.splitlines()] == ["3", "4"]
    assert out.startswith("digits knn class 3 seed 0: AUROC 0.9")


def test_the_curve_and_a_part_of_the_test_images_are_asked_for(bench):
    options = ("--epochs", "2", "--every", "1", "--test-images", "100", "--threads", "3", "--set", "width=16")
    result = json.loads(bench("--json", *options, methods="surprisal", classes="1").out)
    assert (result["epochs"], result["every"], result["test_images"], result["threads"]) == (2, 1, 100, 3)
    assert [point["epoch"] for point in result["curve"]] == [1, 2]


def test_the_data_set_is_loaded_once(bench, monkeypatch):
    loads, load = [], digits.load
    monkeypatch.delenv("NORMSCOPE_DATA", raising=False)
    monkeypatch.setattr(digits, "load", lambda root=None: loads.append(root) or load(root))
    protocol.dataset.cache_clear()
    assert bench().code == 0
    assert loads == [None]


def test_a_cell_that_fails_is_a_result_and_is_tried_again(bench, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(protocol, "measure", lambda cell, data, device: 1 / 0)
        code, out, err = bench()
        assert code == 3
        assert "class 0 seed 0: ZeroDivisionError: division by zero" in out
        assert "2 cells failed; the same command tries again" in err
    assert bench().err.startswith("2 cells, 0 already")
    assert bench().err.startswith("2 cells, 2 already")


def test_other_images_under_the_same_name_are_refused(bench, refused, tmp_path, monkeypatch, in_this_process):
    bench(classes="0")
    monkeypatch.setattr(in_this_process, "checksum", lambda self, dataset: "abc")
    line = refused("bench", "digits", "--methods", "knn", "--classes", "0", "--out", tmp_path / "r")
    assert "has these cells from other images of digits; write to another file" in line


def test_wrong_options(refused, in_this_process, tmp_path, monkeypatch):
    monkeypatch.delenv("NORMSCOPE_DATA", raising=False)

    def line(dataset: str = "digits", **options: str) -> str:
        options = {"methods": "knn", "out": str(tmp_path / "r"), **options}
        return refused("bench", dataset, *(word for key, value in options.items() for word in (f"--{key}", value)))

    assert "no data set 'nothing'; choose from" in line("nothing")
    assert "no data root" in line("mnist")
    assert "is missing" in line("mnist", **{"data-root": str(tmp_path)})
    assert "no method 'nothing'" in line(methods="nothing")
    assert "no method ''" in line(methods="")
    assert "no class '10'; give all, numbers from 0 to 9, or names" in line(classes="0,10")
    assert "no class '-1'" in line(classes="-1")
    assert "no class 'one'" in line(classes="one")
    assert "no class ''" in line(classes="")
    assert "not a budget" in line(budget="soon")
    assert "no setting 'kk'" in line(set="kk=3")
    assert "nowhere does not exist" in line(out=str(tmp_path / "nowhere" / "r"))
    assert "is a folder" in line(out=str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts the command as a process of its own, which does not outlive the test."""
    processes = []

    def started(out: Path, *options: str, **more: object) -> subprocess.Popen:
        command = [sys.executable, "-c", "from normscope.cli import main; main()", "bench", "digits", "--out", str(out)]
        command += ["--threads", "1", *options]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more))
        return processes[-1]

    yield started
    for process in processes:
        with process:
            process.kill()


def children(process: subprocess.Popen) -> list[Path]:
    lists = Path(f"/proc/{process.pid}/task").glob("*/children")  # one for each thread
    return [Path("/proc") / child for one in lists for child in one.read_text().split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc to look at")
@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGTERM, "1"), (signal.SIGINT, "2")])
def test_told_to_end_it_ends_with_its_workers_and_keeps_what_it_has(start, tmp_path, number, jobs):
    """In the middle of cells that would take an hour each."""
    out = tmp_path / "r"
    process = start(out, "--methods", "knn,surprisal", "--classes", "0,1", "--budget", "1h", "--jobs", jobs)
    for _ in range(2):
        process.stdout.readline()
    while not list(tmp_path.glob(".r.*.claim")):  # until another cell is begun
        time.sleep(0.02)
    at_work = children(process)
    assert len(at_work) == int(jobs)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert not [worker for worker in at_work if worker.exists()]
    assert len(out.read_text().splitlines()) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there are no locks there")
def test_killed_in_the_middle_and_then_started_twice_it_ends_with_every_cell_once(start, tmp_path):
    out, options = tmp_path / "r", ("--methods", "knn,pca", "--classes", "0,1,2,3")
    killed = start(out, *options, start_new_session=True)
    for _ in range(2):
        killed.stdout.readline()
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    kept = out.read_text().splitlines()
    both = [start(out, *options) for _ in range(2)]
    said = [process.communicate(timeout=300)[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    lines = out.read_text().splitlines()
    assert lines[: len(kept)] == kept
    results = {(result["method"], result["normal"]): result for result in map(json.loads, lines)}
    assert len(results) == len(lines) == 8
    assert sum(map(len, said)) == 8 - len(kept)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert all(result["error"] is None and result["threads"] == 1 for result in results.values())
    cell = Cell("digits", "knn", 3, 0, 120.0, results["knn", 3]["settings"])
    assert results["knn", 3]["metrics"] == protocol.run(cell, None)["metrics"], "not as in this process"
