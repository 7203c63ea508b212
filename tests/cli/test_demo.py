import json
from functools import partial

import numpy as np
import pytest

from normscope import load, options
from normscope.benchmark.metrics import auroc
from normscope.cli import demo
from normscope.cli.demo import digits, is_normal, print_findings, write_pngs


@pytest.mark.slow
def test_the_real_demo_finds_most_of_them(run, tmp_path):
    assert json.loads(run("demo", "--out", tmp_path, "--json").out)["auroc"] > 0.9


def test_learns_a_digit_and_scores_the_others(run, tmp_path, monkeypatch):
    good, mixed = (some[:40] for some in digits())
    monkeypatch.setattr(demo, "digits", lambda: (good, mixed))
    small = partial(options.checked, "surprisal", settings={"width": 8})
    with monkeypatch.context() as patch:
        patch.setattr(options, "checked", small)
        code, out, err = run("demo", "--out", tmp_path / "demo", "--budget", "1s", "--json")
    result = json.loads(out)
    assert code == 0
    assert result.keys() >= {"auroc", "seconds", "model", "report"}
    labels = np.array([not name.startswith("4-") for name, _ in mixed])
    scores = load(result["model"]).score([tmp_path / "demo" / "mixed" / name for name, _ in mixed])
    assert result["auroc"] == auroc(scores, labels)  # how high it is depends on the machine in so short a time
    assert result["seconds"] > 0
    assert load(result["model"]).card["data"]["images"] == len(list((tmp_path / "demo" / "good").iterdir()))
    assert "images of the digit 4" in err
    assert result["report"] == str(tmp_path / "demo" / "report.html")
    assert (tmp_path / "demo" / "report.html").read_text(encoding="utf-8").count("<tr data-score") == 40


def test_the_folders_hold_the_digits():
    good, mixed = digits()
    assert {name[0] for name, _ in good} == {"4"}
    assert {name[0] for name, _ in mixed} == set("0123456789")
    assert len(good) + len(mixed) < 1797  # of the training images only the fours are used


def test_a_folder_with_other_files_is_left_alone(refused, tmp_path):
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "holiday.png").write_text("mine")
    assert "holds other files (holiday.png); give another folder with --out" in refused("demo", "--out", tmp_path)
    (tmp_path / "file").touch()
    assert "file" in refused("demo", "--out", tmp_path / "file")


def test_it_can_be_run_again(tmp_path):
    good, _ = digits()
    for _ in range(2):
        write_pngs(tmp_path, good[:3])
    assert len(list(tmp_path.iterdir())) == 3


def test_what_is_printed(capsys):
    def row(name: str, score: float, anomalous: bool) -> dict:
        return {"path": f"mixed/{name}.png", "score": score, "p_value": 0.5, "p_estimate": 2e-5, "anomalous": anomalous}

    rows = [row("4-1", 1.0, False), row("3-2", 9.0, True), row("5-3", 2.0, False)]
    print_findings(rows, np.array([not is_normal(one) for one in rows]))
    lines = capsys.readouterr().out.splitlines()
    assert "mixed/3-2.png" in lines[1]
    assert lines[-1] == "flagged 1 of 2 other digits and 0 of 1 that are 4"
