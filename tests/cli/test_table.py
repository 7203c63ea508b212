import csv
import io
import json
import subprocess
import sys

import pytest

from normscope.methods import settings_of
from normscope.settings import to_json


@pytest.fixture
def rows(tmp_path):
    """A file of ten classes for each (method, AUROC)."""

    def write(*given: tuple[str, float], name: str = "r", **more: object):
        lines = [
            {"dataset": "cifar10", "method": method, "settings": to_json(settings_of(method)()), "normal": normal}
            | {"seed": 0, "budget": 60.0, "metrics": {"auroc": value, "fpr95": 1 - value}, "health": "ok"}
            | {"error": None, **more}
            for method, value in given
            for normal in range(10)
        ]
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        return tmp_path / name

    return write


def test_methods_beside_the_paper(run, rows):
    code, out, err = run("table", rows(("knn", 0.6), ("extension", 0.9)))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "cifar10: auroc in per cent"
    assert [line.split(" | ")[0] for line in lines[4:]] == ["| extension", "| paper: extension", "| knn"]
    assert lines[5].endswith("| 92.6 | 3.65 | – |")


def test_several_files_are_one_table(run, rows):
    found = json.loads(run("table", rows(("knn", 0.6)), rows(("surprisal", 0.7), name="other"), "--json").out)
    assert [[line["method"] for line in table["lines"]] for table in found] == [["surprisal", "knn"]]


def test_formats_and_metrics(run, rows):
    path = rows(("base", 0.9))
    assert r"\begin{tabular}" in run("table", path, "--format", "latex").out
    read = list(csv.DictReader(io.StringIO(run("table", path, "--format", "csv").out)))
    assert [line["mean"] for line in read] == ["90.0", "86.7"]
    assert "| base | 10.0 | 10.0 |" in run("table", path, "--metric", "fpr95").out
    assert "paper" not in run("table", path, "--metric", "fpr95").out


def test_wrong_use(refused, rows, tmp_path):
    path = rows(("knn", 0.9))
    assert "no format 'html'; choose from markdown, csv, latex" in refused("table", path, "--format", "html")
    assert f"{path} line 1 has no metric 'f1' but auroc, fpr95" in refused("table", path, "--metric", "f1")
    assert "nothing is no file" in refused("table", tmp_path / "nothing")
    assert "missing argument" in refused("table")
    (tmp_path / "empty").touch()
    assert "no result in" in refused("table", tmp_path / "empty")
    (tmp_path / "other").write_text('{"a": 1}\n')
    assert "other line 1 has no 'error'" in refused("table", path, tmp_path / "other")


def test_comparing_needs_no_torch(rows):
    path = rows(("knn", 0.9))
    script = "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules))\n"
    script += "from normscope.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "compare", path, path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "False"
