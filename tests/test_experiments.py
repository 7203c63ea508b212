"""Every experiment runs with --quick and leaves its lines and its picture; what the experiments share is tested below.

They run in this process, one of them also as a user would start it.
"""

import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from normscope.benchmark import results

ROOT = Path(__file__).parent.parent
# Scripts that show the same cells from another side, each with those whose lines they can take over.
SCRIPTS = {
    "beta": ["figure1", "figure3"],
    "figure2": ["figure2"],
    "estimators": ["table1"],
    "figure4": ["figure4"],
    "scores": ["table2"],
    "table3": ["table3"],
    "few_anomalies": ["few_anomalies"],
    "contamination": ["contamination"],
    "false_alarms": ["false_alarms"],
    "patches": ["patches"],
    "published": ["published"],
    "accuracy": ["accuracy"],
    "levers": ["levers"],
    "references": ["references"],
    "frozen_head": ["frozen_head"],
    "photographs": ["photographs"],
    "promised": ["promised"],
    "local_models": ["local_models"],
}
ALONE = {"entropy_term", "long_run"}  # those with a test of their own
QUICK = {"false_alarms"}  # the others are run by `make test-slow`


@pytest.fixture(autouse=True)
def experiments(monkeypatch, in_this_process):
    """Modules are found beside the script, as if it had been started; threads are as before afterwards."""
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def run(monkeypatch, script: str, out: Path, picture: Path) -> None:
    monkeypatch.chdir(out.parent)
    monkeypatch.setattr(sys, "argv", [script, "--quick", "--out", str(out), "--picture", str(picture)])
    runpy.run_path(str(ROOT / "experiments" / f"{script}.py"), run_name="__main__")


def check_picture(path: Path) -> None:
    with Image.open(path) as image:
        assert min(image.size) > 200
        assert len(image.convert("RGB").getcolors(2**20)) > 20, "nothing but paper"


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in QUICK else pytest.mark.slow) for one in SCRIPTS])
def test_quick_run_leaves_lines_and_a_picture(name, tmp_path, monkeypatch):
    out = tmp_path / f"{name}.jsonl"
    for place, script in enumerate(SCRIPTS[name]):
        before = out.read_bytes() if place else b""
        run(monkeypatch, script, out, tmp_path / f"{script}.png")
        assert not place or out.read_bytes() == before, "cells that were there have been measured again"
        check_picture(tmp_path / f"{script}.png")
    lines = results.read(out)
    assert lines
    assert all(line["error"] is None for line in lines)
    if name == "beta":
        check_sweep(lines)


def check_sweep(lines: list[dict]) -> None:
    """Every cell is there, with a curve of losses and lengths, and labels were looked at only in the end."""
    trained = [line for line in lines if line["epochs"] == 2]
    variants = {(line["settings"]["beta"], line["settings"]["preset"], line["settings"]["gamma"]) for line in trained}
    readings = (("paper", 0.0), ("laptop", 2.0), ("laptop", 0.0))
    assert variants == {(beta, *reading) for beta in (0.0, 20.0) for reading in readings}
    for line in trained:
        assert [point["epoch"] for point in line["curve"]] == [1, 2]
        assert line["curve"][-1]["auroc"] == pytest.approx(line["metrics"]["auroc"], abs=1e-6)
        assert {"information", "entropy", "norm_normal", "norm_anomalous"} <= line["curve"][0].keys()
        assert line["protocol"]["looks_at_test_labels_before_the_scores"] == 0
    assert [line["steps"] for line in lines if line["epochs"] == 0] == [0], "no untrained network"


def test_every_experiment_is_run_here():
    sources = {path.stem: path.read_text() for path in (ROOT / "experiments").glob("*.py")}
    scripts = {name for name, text in sources.items() if "\nsave(figure" in text}
    assert scripts == ALONE | {script for group in SCRIPTS.values() for script in group}


@pytest.mark.slow
def test_started_from_the_root_of_the_repository_with_two_processes(tmp_path):
    command = [sys.executable, "experiments/entropy_term.py", "--quick", "--jobs", "2"]
    command += ["--out", tmp_path / "r", "--picture", tmp_path / "p.png"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    check_picture(tmp_path / "p.png")
    lines = results.read(tmp_path / "r")
    assert sorted((line["settings"]["noise"], line["settings"]["beta"]) for line in lines) == [
        (noise, beta) for noise in (0.0, 0.1) for beta in (0.0, 0.1)
    ]
    assert all(line["error"] is None for line in lines)


INTERRUPTED = """
import runpy, signal
from normscope.benchmark import results
from normscope.training import device

device.gains_from_bfloat16, append = lambda _: False, results.append

def append_and_interrupt(path, line):
    append(path, line)
    if line["epoch"] == 2:
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
results.append = append_and_interrupt
runpy.run_path("long_run.py", run_name="__main__")
"""


@pytest.mark.slow
def test_a_long_run_that_was_cut_off_goes_on(tmp_path, monkeypatch):
    """Its checkpoint is found again, and the lines that were written stay."""
    out, picture = tmp_path / "long.jsonl", tmp_path / "p.png"
    arguments = [sys.executable, "-c", INTERRUPTED, "--quick", "--out", str(out), "--picture", str(picture)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=600, cwd=ROOT / "experiments")
    assert done.returncode == -signal.SIGINT, done.stderr
    before = results.read(out)
    run(monkeypatch, "long_run", out, tmp_path / "p.png")
    lines = results.read(out)
    assert lines[:2] == before
    assert [line["epoch"] for line in lines] == [0, 2, 4] * 3, "it has begun anew, or a reading is missing"
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".png"] == ["long.jsonl"]
    check_picture(tmp_path / "p.png")
    for line in lines:
        assert len(line["norms"]) == 10
        assert (line["zeros"] > 0.2) == (line["reading"] != "literal"), "only a rectified code is sparse"


NAMES = ("dataset", "normal", "amount")


@pytest.fixture
def options_of(tmp_path):
    from options import read_options

    def read(*arguments: str):
        out = ["--out", str(tmp_path / "lines.jsonl"), *arguments]
        return read_options("", "unused.jsonl", "unused.png", arguments=out)

    return read


def test_lines_are_measured_once_and_made_of_key_run_and_finding(options_of):
    options, asked = options_of("--budget", "5s", "--threads", "2"), []

    def measure(*key):
        asked.append(key)
        return {"found": len(asked)}

    first = options.lines(NAMES, [("digits", 0, 1.5)], measure)
    again = options.lines(NAMES, [("digits", 0, 1.5), ("digits", 1, 1.5)], measure)
    assert asked == [("digits", 0, 1.5), ("digits", 1, 1.5)]
    assert again["digits", 0, 1.5] == first["digits", 0, 1.5]
    line = again["digits", 1, 1.5]
    assert {name: line[name] for name in (*NAMES, "budget", "threads", "error", "found")} == {
        "dataset": "digits",
        "normal": 1,
        "amount": 1.5,
        "budget": 5.0,
        "threads": 2,
        "error": None,
        "found": 2,
    }
    assert results.read(options.out) == list(again.values())


def test_what_was_measured_before_a_failure_is_kept(options_of):
    options = options_of()

    def measure(dataset, normal, amount):
        if normal == 1:
            raise RuntimeError("cut off")
        return {}

    with pytest.raises(RuntimeError, match="cut off"):
        options.lines(NAMES, [("digits", normal, 0) for normal in range(3)], measure)
    assert [line["normal"] for line in results.read(options.out)] == [0]


def test_a_measurement_may_say_that_the_budget_was_not_used(options_of):
    found = options_of().lines(NAMES, [("digits", 0, 0)], lambda *key: {"budget": None})
    assert found["digits", 0, 0]["budget"] is None


def test_tasks_are_read_from_their_texts():
    from options import parse_tasks

    assert parse_tasks("cifar10:0,7") == [("cifar10", 0), ("cifar10", 7)]


def test_a_cell_that_failed_stays_out(options_of):
    options = options_of()
    good, bad = options.cells("knn", {})[:2]
    results.append(options.out, {**vars(good), "metrics": {"auroc": 0.5}, "error": None})
    results.append(options.out, {**vars(bad), "metrics": None, "error": "MemoryError: "})
    assert [result["normal"] for result in options.results([good])] == [good.normal]


@pytest.mark.slow
def test_parity_of_exported_graphs_is_measured_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["export_parity", "--quick", "--out", str(tmp_path / "export.jsonl")])
    for _ in range(2):
        runpy.run_path(str(ROOT / "experiments" / "export_parity.py"), run_name="__main__")
    lines = results.read(tmp_path / "export.jsonl")
    keys = [(line["method"], line["format"]) for line in lines]
    assert keys == [(method, to) for method in ("pca", "vae") for to in ("onnx", "openvino")]
    assert all(line["parity"]["relative"] < 1e-3 and line["parity"]["images"] == 52 for line in lines)
    assert all(line["bytes"] > 1000 for line in lines)
