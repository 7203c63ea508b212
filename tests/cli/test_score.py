import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope import Detector, load
from normscope.cli.score import as_csv
from normscope.images.notation import cell, from_printable
from normscope.model import Model
from normscope.training.interrupt import Terminated

KEYS = ["path", "score", "p_value", "p_estimate", "anomalous", "error"]


@pytest.fixture
def mixed(images, tmp_path):
    """Three images, one that cannot be read between them, and files that nobody wants scored."""
    folder = images(tmp_path / "mixed", 3, seed=5)
    (folder / "001b.png").write_bytes(b"\x89PNG cut off")
    (folder / "notes.txt").write_text("no image")
    (folder / ".hidden").write_text("no image")
    return folder


def test_json_is_a_row_for_each_file_in_order(run, model, good):
    code, out, err = run("score", model, good, "--json")
    rows = json.loads(out)
    assert code == 0
    assert [list(row) for row in rows] == [KEYS] * 20
    assert [row["path"] for row in rows] == sorted(str(path) for path in good.iterdir())
    assert [row["score"] for row in rows] == load(model).score(good).tolist()
    assert {row["error"] for row in rows} == {None}
    flagged = sum(row["anomalous"] for row in rows)
    promise, count = err.splitlines()
    assert promise == load(model).calibration.promise
    assert count == f"20 images, {flagged} anomalous, 0 could not be read"


def test_an_unreadable_file_is_a_row_and_exit_3(run, model, mixed):
    code, out, err = run("score", model, mixed, "--json")
    rows = json.loads(out)
    assert code == 3
    assert [row["path"].rsplit("/")[-1] for row in rows] == ["000.png", "001.png", "001b.png", "002.png"]
    assert [row["error"] is None for row in rows] == [True, True, False, True]
    assert rows[2] | {"error": "", "path": ""} == dict.fromkeys(KEYS) | {"error": "", "path": ""}
    assert err.splitlines()[0] == "2 files ignored as no images"
    assert err.splitlines()[-1].endswith("1 could not be read")


def test_empty_and_too_large_files_are_rows(run, model, good, tmp_path):
    (tmp_path / "empty.png").touch()
    Image.new("1", (10_000, 5_001)).save(tmp_path / "large.png")
    code, out, _ = run("score", model, tmp_path, good / "000.png", "--json")
    empty, large, fine = json.loads(out)
    assert code == 3
    assert "0 bytes" in empty["error"]
    assert "more than the limit of 50000000" in large["error"]
    assert fine["error"] is None


def test_the_screen_shows_the_most_surprising_first(run, model, mixed, images):
    images(mixed / "odd", 1, seed=9, shape=(28, 28, 3))
    code, out, _ = run("score", model, mixed)
    lines = out.splitlines()
    assert code == 3
    assert len(lines) == 5
    scores = [float(line.split()[1]) for line in lines[:-1]]
    assert scores == sorted(scores, reverse=True)
    assert {line.split()[0] for line in lines[:-1]} <= {"anomalous", "normal"}
    assert lines[-1].split()[0] == "unreadable"
    assert "001b.png: " in lines[-1]


def test_csv_has_all_rows_and_any_name(run, model, images, tmp_path):
    folder = images(tmp_path / 'a "quoted", folder', 2)
    (folder / "000.png").rename(folder / "two\nlines.png")
    (folder / "001.png").rename(os.fsdecode(os.fsencode(folder) + b"/\xff.png"))
    (folder / "bad, really.png").write_bytes(b"no image")
    code, out, err = run("score", model, folder, "--csv", tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert code == 3
    assert len(out.splitlines()) == 3
    assert err.splitlines()[0] == f"wrote 3 rows to {tmp_path / 'rows.csv'}"
    assert list(rows[0]) == KEYS
    names = [row["path"].removeprefix(f"{folder}/") for row in rows]
    assert names == ["bad, really.png", "two\\nlines.png", "\\udcff.png"]
    assert [from_printable(row["path"]) for row in rows] == sorted(folder.iterdir())
    assert rows[0]["score"] == ""
    assert float(rows[1]["score"]) == json.loads(run("score", model, folder, "--json").out)[1]["score"]


def test_json_tells_paths_that_look_alike_apart(run, model, images, tmp_path):
    names = ["a\nb.png", "a\\nb.png", "a\u00a0b.png", "a b.png", os.fsdecode(b"\xff.png"), "\\udcff.png"]
    folder = images(tmp_path / "some", len(names))
    for number, name in enumerate(names):
        (folder / f"{number:03}.png").rename(folder / name)
    paths = [row["path"] for row in json.loads(run("score", model, folder, "--json").out)]
    assert len(set(paths)) == len(names)
    assert [from_printable(path) for path in paths] == sorted(folder.iterdir())
    assert f"{folder}/a\u00a0b.png" in paths


def test_no_cell_of_a_csv_is_a_formula(run, model, images, tmp_path, monkeypatch):
    names = [
        "=1+1.png",
        "+1.png",
        "-1.png",
        "@x.png",
        "\t=1.png",
        "\r=1.png",
        "＝1.png",
        "'=1.png",
        "a;=1.png",
        "\\x3d",
    ]
    monkeypatch.chdir(images(tmp_path / "some", len(names)))
    for number, name in enumerate(names):
        Path(f"{number:03}.png").rename(name)
    assert run("score", model, *("./" + name for name in names), "--csv", tmp_path / "rows.csv").code == 0
    text = (tmp_path / "rows.csv").read_text(encoding="utf-8")
    rows = list(csv.reader(text.splitlines()))[1:]
    assert [from_printable(row[0]) for row in rows] == [Path(name) for name in names]
    assert not [cell for row in rows for cell in row if cell.startswith(tuple("=+-@\t\r＝＋－＠"))]
    assert '"a;=1.png"' in text  # a spreadsheet that divides at semicolons leaves it whole


def test_a_negative_score_stays_a_number():
    row = {"path": "-1.png", "score": -1.4, "p_value": 0.5, "p_estimate": None, "anomalous": False, "error": None}
    assert [*as_csv([row])][1] == r'"\x2d1.png",-1.4,0.5,"",False,""' + "\r\n"
    assert cell("") == ""


def test_beside_a_csv_the_screen_shows_the_most_surprising_ten(run, model, good, tmp_path):
    every = run("score", model, good).out.splitlines()
    shown = run("score", model, good, "--csv", tmp_path / "rows.csv").out.splitlines()
    assert shown == [*every[:10], "… and 10 other images"]


def test_another_false_alarm_rate_without_a_refit(run, model, good):
    code, out, err = run("score", model, good, "--json", "--false-alarm-rate", "0.5")
    rows, calibration = json.loads(out), load(model).calibration.at(0.5)
    assert code == 0
    assert [row["anomalous"] for row in rows] == [row["score"] > calibration.threshold for row in rows]
    assert err.splitlines()[0] == calibration.promise
    assert "about 50 % of normal images" in calibration.promise
    assert load(model).calibration.rate == 0.2
    too_small = run("score", model, good, "--json", "--false-alarm-rate", "0.001").err.splitlines()
    assert too_small[1].startswith("note: 20 calibration images can promise")


def test_a_rate_that_is_none(refused, model, good):
    assert "false-alarm rate 1.5 is not between 0 and 1" in refused("score", model, good, "--false-alarm-rate", "1.5")


def test_the_screen_shows_estimates_where_all_p_values_are_equal(run, images, tmp_path):
    model, folder = tmp_path / "m", images(tmp_path / "flat", 3)
    Detector("knn").fit(images(tmp_path / "good", 60)).save(model)
    for level, path in zip((0, 20, 255), sorted(folder.iterdir()), strict=True):
        Image.new("L", (28, 28), level).save(path)
    rows = json.loads(run("score", model, folder, "--json").out)
    assert {row["p_value"] for row in rows} == {1 / 61}
    assert all(row["p_estimate"] < 1 / 61 for row in rows)
    lines = run("score", model, folder).out.splitlines()
    assert all("  p ~" in line for line in lines)


def test_one_impossible_argument_loses_no_other_row(run, model, good):
    code, out, _ = run("score", model, good / "000.png", "x" * 5000, good / "001.png", "x" * 300 + ".png", "--json")
    rows = json.loads(out)
    assert code == 3
    assert [row["score"] is None for row in rows] == [False, True, False, True]
    assert "File name too long" in rows[1]["error"]
    assert rows[1]["path"] == "x" * 5000


def test_csv_and_json_together(run, model, good, tmp_path):
    (tmp_path / "rows.csv").write_text("what was there")
    code, out, _ = run("score", model, good, "--json", "--csv", tmp_path / "rows.csv")
    assert code == 0
    assert len(json.loads(out)) == len((tmp_path / "rows.csv").read_text().splitlines()) - 1 == 20


def test_files_and_folders_in_the_order_given(run, model, good, mixed):
    given = [good / "003.png", mixed, good / "001.png", mixed / "gone.png"]
    code, out, _ = run("score", model, *given, "--json")
    rows = json.loads(out)
    assert code == 3
    names = ["003.png", "000.png", "001.png", "001b.png", "002.png", "001.png", "gone.png"]
    assert [row["path"].rsplit("/")[-1] for row in rows] == names
    assert rows[-1]["error"] == "does not exist"


def test_a_link_to_a_folder_seen_already_is_no_error(run, model, images, tmp_path):
    folder = images(tmp_path / "some", 2)
    (folder / "again").symlink_to(folder)
    code, out, _ = run("score", model, folder, "--json")
    assert code == 0
    assert len(json.loads(out)) == 2


def test_nothing_to_score(refused, model, tmp_path):
    assert "nothing does not exist" in refused("score", model, tmp_path / "nothing")
    assert "File name too long" in refused("score", model, "x" * 300)
    assert "does not exist" in refused("score", model, tmp_path / "nothing", tmp_path / "neither")
    assert "no image was found" in refused("score", model, tmp_path)
    (tmp_path / "notes.txt").touch()
    assert "no image was found" in refused("score", model, tmp_path)


def test_no_such_device(refused, model, good):
    assert "no device 'abacus'" in refused("score", model, good, "--device", "abacus")


@pytest.mark.parametrize("verb", ["score", "info"])
def test_a_model_that_is_something_else(refused, verb, model, good, tmp_path):
    def line(path) -> str:
        return refused(*([verb, path, good] if verb == "score" else [verb, path]))

    path = tmp_path / "other"
    assert "does not exist" in line(path)
    assert "is a folder, not a file" in line(tmp_path)
    path.touch()
    assert "is empty" in line(path)
    Image.new("L", (9, 9)).save(path, "JPEG")
    assert "is not a safetensors file" in line(path)
    path.write_bytes(model.read_bytes()[:-100])
    assert "was cut short" in line(path)
    path.write_bytes(model.read_bytes()[:100])
    assert "was cut short" in line(path)
    damaged = bytearray(model.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    assert "was changed or damaged after it was saved; give a model that `normscope fit` wrote" in line(path)


def test_nowhere_to_write_is_known_before_scoring(refused, model, good, tmp_path, monkeypatch):
    monkeypatch.setattr("normscope.model.load", lambda *args, **kwargs: pytest.fail("too late"))
    assert "nowhere does not exist" in refused("score", model, good, "--csv", tmp_path / "nowhere" / "rows.csv")
    assert "is a folder" in refused("score", model, good, "--csv", tmp_path)


@pytest.mark.parametrize(("signal", "code"), [(KeyboardInterrupt, 130), (Terminated, 143)])
def test_interrupted_it_keeps_the_rows_so_far(run, model, good, tmp_path, monkeypatch, signal, code):
    def interrupted(self, *args, **kwargs):
        if len(rows) == 3:
            raise signal
        rows.append(row(self, *args, **kwargs))
        return rows[-1]

    rows, row = [], Model.row
    monkeypatch.setattr(Model, "row", interrupted)
    result = run("score", model, good, "--csv", tmp_path / "rows.csv")
    assert result.code == code
    assert "wrote 3 rows to" in result.err
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 1 + 3


def test_a_full_disk_is_named_and_the_rows_go_to_standard_output(run, model, good, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, out, err = run("score", model, good, "--csv", tmp_path / "rows.csv")
    assert code == 2
    assert "rows.csv cannot be written (No space left on device): none of 20 rows is in it" in err
    assert len(out.splitlines()) == 1 + 20
    assert not list(tmp_path.iterdir())


def test_rows_go_into_devices_and_through_links(run, model, good, tmp_path):
    assert run("score", model, good, "--csv", "/dev/null").code == 0
    (tmp_path / "link.csv").symlink_to(tmp_path / "rows.csv")
    assert run("score", model, good, "--csv", tmp_path / "link.csv").code == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 1 + 20
    assert Path("/dev/null").is_char_device()


def test_a_model_without_calibration_gives_scores_alone(run, good, tmp_path):
    shutil.copytree(good, tmp_path / "images")
    Detector("knn", false_alarm_rate=None).fit(good).save(tmp_path / "m")
    code, out, _ = run("score", tmp_path / "m", good, "--json")
    assert code == 0
    assert {(row["p_value"], row["p_estimate"], row["anomalous"]) for row in json.loads(out)} == {(None,) * 3}
    code, out, _ = run("score", tmp_path / "m", good / "000.png")
    assert out.split()[1:] == [str(good / "000.png")]
    code, _, err = run("score", tmp_path / "m", good, "--false-alarm-rate", "0.1")
    assert (code, err.count("\n")) == (2, 1)
    assert "fitted without a calibration set" in err


def test_it_is_said_when_normal_has_moved(run, explaining, tmp_path):
    (tmp_path / "same").mkdir()
    (tmp_path / "darker").mkdir()
    columns = 120 + 60 * np.sin(np.arange(64) / 3)
    for number, noise in enumerate(np.random.default_rng(9).normal(0, 12, (60, 48, 64))):
        for name, shade in (("same", 0), ("darker", 30)):
            pixels = np.clip(columns - shade + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.png")
    assert "moved" not in run("score", explaining, tmp_path / "same").err
    moved = run("score", explaining, tmp_path / "darker", "--json")
    assert moved.err.count("note: normal has moved") == 1
    assert len(json.loads(moved.out)) == 60
