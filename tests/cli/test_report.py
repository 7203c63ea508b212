import json

import pytest

from normscope.images.notation import printable
from normscope.model import Model


def test_a_report_is_written_and_said(run, explaining, parts, tmp_path):
    code, out, err = run("score", explaining, parts, "--report", tmp_path / "report.html", "--json")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    rows = json.loads(out)
    assert code == 3
    assert err.splitlines()[-1] == f"wrote the report to {tmp_path / 'report.html'}"
    assert text.count("<tr data-score") == 12
    assert text.count('class="heat"') == 12
    assert "1 file could not be read" in text
    assert all(repr(row["score"]) in text for row in rows if row["score"] is not None)
    assert printable(explaining) in text
    assert rows == json.loads(run("score", explaining, parts, "--json").out)


def test_a_method_without_heat_maps_has_a_report_that_says_so(run, model, good, tmp_path):
    assert run("score", model, good, "--report", tmp_path / "report.html").code == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'class="heat"' not in text
    assert '<p class="quiet" >The method knn has no heat maps' in text


def test_together_with_heat_maps_and_rows(run, explaining, parts, tmp_path):
    code, out, _ = run(
        "score", explaining, parts / "bad", "--report", tmp_path / "r.html", "--heatmaps", tmp_path / "maps", "--csv",
        tmp_path / "rows.csv",
    )  # fmt: skip
    assert (code, len(out.splitlines())) == (0, 4)
    assert len(list((tmp_path / "maps").iterdir())) == 4
    assert (tmp_path / "r.html").exists()
    assert (tmp_path / "rows.csv").exists()


def test_interrupted_there_is_a_report_of_what_was_scored(run, explaining, parts, tmp_path, monkeypatch):
    def interrupted(self, *args, **kwargs):
        if len(rows) == 3:
            raise KeyboardInterrupt
        rows.append(row(self, *args, **kwargs))
        return rows[-1]

    rows, row = [], Model.row
    monkeypatch.setattr(Model, "row", interrupted)
    assert run("score", explaining, parts, "--report", tmp_path / "report.html").code == 130
    assert "3 of 13 files are in this report" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_full_disk_loses_no_row(run, explaining, parts, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, out, err = run("score", explaining, parts / "bad", "--report", tmp_path / "report.html")
    assert code == 2
    assert len(out.splitlines()) == 4
    assert "report.html: No space left on device" in err


def test_nowhere_to_write_is_known_before_scoring(refused, model, good, tmp_path, monkeypatch):
    monkeypatch.setattr("normscope.model.load", lambda *args, **kwargs: pytest.fail("too late"))
    assert "nowhere does not exist" in refused("score", model, good, "--report", tmp_path / "nowhere" / "r.html")
    assert "is a folder" in refused("score", model, good, "--report", tmp_path)


def test_nothing_but_unreadable_files(run, explaining, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    assert run("score", explaining, tmp_path / "bad.png", "--report", tmp_path / "r.html").code == 3
    assert "No image could be scored." in (tmp_path / "r.html").read_text(encoding="utf-8")
