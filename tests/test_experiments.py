"""Every experiment runs with --quick and leaves its lines and its picture."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
# Scripts that show the same cells from another side, each with those whose lines they can take over.
SCRIPTS = {
    "beta": ["figure1", "figure2", "figure3"],
    "estimators": ["table1", "figure4"],
    "scores": ["table2"],
    "table3": ["table3"],
    "long": ["long_run"],
    "few_anomalies": ["few_anomalies"],
    "contamination": ["contamination"],
    "patches": ["patches"],
    "published": ["published"],
    "entropy_term": ["entropy_term"],
    "accuracy": ["accuracy"],
    "levers": ["levers"],
    "frozen_head": ["frozen_head"],
}


def run(script: str, out: Path, picture: Path, *options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "experiments" / f"{script}.py", "--out", out, "--picture", picture, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=picture.parent)


@pytest.mark.parametrize("name", SCRIPTS)
def test_quick_run_leaves_lines_and_a_picture(name, tmp_path):
    out = tmp_path / f"{name}.jsonl"
    for place, script in enumerate(SCRIPTS[name]):
        picture = tmp_path / f"{script}.png"
        before = out.read_bytes() if place else b""
        done = run(script, out, picture, "--quick")
        assert done.returncode == 0, done.stderr
        assert not place or out.read_bytes() == before, "cells that were there have been measured again"
        with Image.open(picture) as image:
            assert min(image.size) > 200
            assert len(image.convert("RGB").getcolors(2**20)) > 20, "nothing but paper"
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows
    assert all(row["error"] is None for row in rows)
    if name == "beta":
        check_sweep(rows)


def check_sweep(rows: list[dict]) -> None:
    """Every cell is there, with a curve of losses and lengths, and labels were looked at only in the end."""
    assert {(row["settings"]["beta"], row["settings"]["clip_scale"]) for row in rows} == {
        (beta, scale) for beta in (0.0, 20.0) for scale in ("size", "root")
    }
    for row in rows:
        assert [point["epoch"] for point in row["curve"]] == list(range(1, 5))
        assert row["curve"][-1]["auroc"] == pytest.approx(row["metrics"]["auroc"], abs=1e-6)
        assert {"information", "entropy", "norm_normal", "norm_anomalous"} <= row["curve"][0].keys()
        assert row["protocol"]["looks_at_test_labels_before_the_scores"] == 0


def test_every_experiment_is_run_here():
    sources = {path.stem: path.read_text() for path in (ROOT / "experiments").glob("*.py")}
    scripts = {name for name, text in sources.items() if "save(figure" in text}
    assert scripts == {script for group in SCRIPTS.values() for script in group}


def test_a_long_run_that_was_cut_off_goes_on(tmp_path):
    """Its checkpoint is found again, and the lines that were written stay."""
    out = tmp_path / "long.jsonl"
    cut = "import sys, runpy, os; sys.argv = sys.argv[1:]\n"
    cut += "from normscope.evaluation import results\nappend = results.append\n"
    cut += "def once(*row): append(*row); os._exit(9)\nresults.append = once\n"
    cut += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [ROOT / "experiments" / "long_run.py", "--quick", "--out", out, "--picture", tmp_path / "p.png"]
    assert subprocess.run([sys.executable, "-c", cut, *command], capture_output=True).returncode == 9
    assert run("long_run", out, tmp_path / "p.png", "--quick").returncode == 0
    epochs = [json.loads(line)["epoch"] for line in out.read_text().splitlines()]
    assert epochs[0] == 2
    assert sorted(set(epochs)) == [2, 4]
    assert not list(tmp_path.glob("*.checkpoint"))
