import json

import pytest

from normscope.evaluation import protocol

KEYS = {"dataset", "method", "settings", "normal", "seed", "metrics", "seconds", "images_per_second"}
KEYS |= {"version", "commit", "device", "health", "error", "intervals", "protocol", "data"}


@pytest.fixture
def bench(run, tmp_path):
    def once(*options: object, methods: str = "knn", classes: str = "0,1"):
        return run("bench", "digits", "--methods", methods, "--classes", classes, "--out", tmp_path / "r", *options)

    return once


def test_a_row_for_each_cell_and_none_the_second_time(bench, tmp_path):
    code, out, err = bench("--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert err == f"2 cells, 0 already in {tmp_path / 'r'}\n"
    assert [json.loads(line) for line in (tmp_path / "r").read_text().splitlines()] == rows
    for number, row in enumerate(rows):
        assert row.keys() >= KEYS
        assert (row["dataset"], row["method"], row["normal"], row["seed"]) == ("digits", "knn", number, 0)
        assert row["metrics"].keys() == {"auroc", "auprc", "fpr95"}
        assert row["metrics"]["auroc"] > 0.95
        assert row["seconds"].keys() == {"fit", "score"}
        assert row["settings"] == {"k": 5, "batch_size": 256}
        assert (row["health"], row["error"], row["device"]) == ("ok", None, "cpu")
    before = (tmp_path / "r").read_bytes()
    assert bench("--json") == (0, "", f"2 cells, 2 already in {tmp_path / 'r'}\n")
    assert (tmp_path / "r").read_bytes() == before


def test_another_setting_seed_or_budget_is_another_cell(bench):
    bench(classes="0")
    for options in (["--set", "k=3"], ["--budget", "3m"]):
        assert bench(*options, classes="0").err.startswith("1 cell, 0 already")
    assert bench("--seeds", "2", classes="0").err.startswith("2 cells, 1 already")


def test_classes_can_be_named(run, tmp_path):
    code, out, _ = run("bench", "digits", "--methods", "knn", "--classes", "3, 4,three", "--out", tmp_path / "r")
    assert (code, out) == (2, "")
    code, out, _ = run("bench", "digits", "--methods", "knn", "--classes", "3, 4", "--out", tmp_path / "r")
    assert code == 0
    assert [line.split()[3] for line in out.splitlines()] == ["3", "4"]


def test_the_curve_and_a_part_of_the_test_images_are_asked_for(bench, tmp_path):
    code, out, _ = bench(
        "--json",
        "--epochs",
        "2",
        "--every",
        "1",
        "--test-images",
        "100",
        "--set",
        "width=16",
        methods="surprisal",
        classes="1",
    )
    row = json.loads(out)
    assert code == 0
    assert (row["epochs"], row["every"], row["test_images"]) == (2, 1, 100)
    assert [point["epoch"] for point in row["curve"]] == [1, 2]


def test_killed_in_the_middle_it_ends_with_the_same_cells(tmp_path):
    import os
    import signal
    import subprocess
    import sys
    import time

    out = tmp_path / "r"
    command = [sys.executable, "-c", "from normscope.cli import main; main()", "bench", "digits", "--methods", "knn"]
    command += ["--classes", "all", "--out", str(out), "--jobs", "2", "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (out.exists() and out.read_bytes().count(b"\n") >= 2) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = out.read_text().splitlines()
    assert 2 <= len(kept) < 10
    assert subprocess.run(command, capture_output=True).returncode == 0
    lines = out.read_text().splitlines()
    assert lines[: len(kept)] == kept
    assert sorted(json.loads(line)["normal"] for line in lines) == list(range(10))


def test_what_is_named_twice_is_measured_once(bench):
    code, out, err = bench(methods="knn, knn", classes="1,1")
    assert code == 0
    assert err.startswith("1 cell, ")
    assert len(out.splitlines()) == 1
    assert out.startswith("digits knn class 1 seed 0: AUROC 0.9")


def test_processes_give_the_same_rows(bench, tmp_path):
    assert bench("--jobs", "2", "--threads", "1").code == 0
    parallel = {row["normal"]: row["metrics"] for row in map(json.loads, (tmp_path / "r").read_text().splitlines())}
    (tmp_path / "r").unlink()
    assert bench("--threads", "1").code == 0
    alone = {row["normal"]: row["metrics"] for row in map(json.loads, (tmp_path / "r").read_text().splitlines())}
    assert parallel == alone


def test_a_cell_that_fails_is_a_row_and_is_tried_again(bench, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(protocol, "measure", lambda cell, data: 1 / 0)
        code, out, err = bench()
        assert code == 3
        assert "class 0 seed 0: ZeroDivisionError: division by zero" in out
        assert "2 cells failed; the same command tries them again" in err
    assert bench().err.startswith("2 cells, 0 already")
    assert bench().err.startswith("2 cells, 2 already")


def test_wrong_options(refused, tmp_path, monkeypatch):
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


def test_a_file_of_something_else_is_not_added_to(refused, tmp_path):
    path = tmp_path / "r"
    for content, message in (
        (b"\xff\xd8\xff\xe0\n", "line 1 is not a row of results"),
        (b'{"name": 1}\n', "has a row without 'error'"),
        (b"[]\n", "line 1 is not a row"),
    ):
        path.write_bytes(content)
        assert message in refused("bench", "digits", "--methods", "knn", "--classes", "0", "--out", path)
        assert path.read_bytes() == content
