import csv
import json

import numpy as np
import pytest
from PIL import Image

from normscope import Detector, load
from normscope.benchmark.metrics import auroc

KEYS = ["path", "score", "p_value", "p_estimate", "anomalous", "error"]


@pytest.fixture
def fresh(images, tmp_path):
    """Ten images like the normal ones."""
    return images(tmp_path / "fresh", 10, seed=3)


@pytest.fixture
def bad(tmp_path):
    folder = tmp_path / "bad"
    folder.mkdir()
    for level in range(0, 80, 20):
        Image.new("L", (28, 28), level).save(folder / f"{level:03}.png")
    return folder


def test_json_has_what_the_rows_say(run, model, fresh, bad):
    code, out, err = run("evaluate", model, fresh, bad, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert [list(row) for row in found["good"] + found["bad"]] == [KEYS] * 14
    scores = np.array([row["score"] for row in found["good"] + found["bad"]])
    assert scores.tolist() == [*load(model).score(fresh), *load(model).score(bad)]
    assert found["auroc"] == auroc(scores, np.repeat([0, 1], [10, 4]))
    assert found["auroc_interval"][0] <= found["auroc"] <= found["auroc_interval"][1]
    alarms = sum(row["anomalous"] for row in found["good"])
    detected = sum(row["anomalous"] for row in found["bad"])
    assert found["confusion"]["good"] == {"normal": 10 - alarms, "anomalous": alarms}
    assert found["confusion"]["bad"] == {"normal": 4 - detected, "anomalous": detected}
    assert [one["asked"] for one in found["flagged"]] == [0.2, 0.01, 0.05]
    assert found["flagged"][0]["detection"].items() >= {"number": detected, "of": 4, "share": detected / 4}.items()


def test_people_read_a_table(run, model, fresh, bad):
    code, out, _ = run("evaluate", model, fresh, bad)
    first, head, bad_line, good_line, *rates = out.splitlines()
    found = json.loads(run("evaluate", model, fresh, bad, "--json").out)
    assert code == 0
    assert first.startswith(f"AUROC {found['auroc']:.4f} (")
    assert first.endswith("on 10 good and 4 bad images")
    assert head.split()[-3:] == ["flagged", "not", "flagged"]
    assert bad_line.split() == ["bad", *(str(found["confusion"]["bad"][name]) for name in ("anomalous", "normal"))]
    assert good_line.split() == ["good", *(str(found["confusion"]["good"][name]) for name in ("anomalous", "normal"))]
    assert [line.split(":")[0] for line in rates] == [
        "false-alarm rate 20 %",
        "false-alarm rate 1 % (4.76 % at best)",
        "false-alarm rate 5 %",
    ]


def test_another_rate(run, refused, model, fresh, bad):
    found = json.loads(run("evaluate", model, fresh, bad, "--json", "--false-alarm-rate", "0.5").out)
    assert [one["asked"] for one in found["flagged"]] == [0.5, 0.01, 0.05]
    assert "is not between 0 and 1" in refused("evaluate", model, fresh, bad, "--false-alarm-rate", "0")


def test_an_unreadable_file_is_a_row_and_exit_3(run, model, fresh, bad, tmp_path):
    (bad / "cut.png").write_bytes(b"\x89PNG cut off")
    code, out, err = run("evaluate", model, fresh, bad, "--json", "--csv", tmp_path / "rows.csv")
    found = json.loads(out)
    assert code == 3
    assert found["bad"][-1]["error"]
    assert found["flagged"][0]["detection"]["of"] == 4
    assert err.splitlines()[-1].startswith("1 image could not be read")
    with (tmp_path / "rows.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == KEYS
    assert [row["path"] for row in rows] == [row["path"] for row in found["good"] + found["bad"]]


def test_a_model_without_calibration_has_an_auroc(run, good, fresh, bad, tmp_path):
    Detector("knn", false_alarm_rate=None).fit(good).save(tmp_path / "m")
    code, out, _ = run("evaluate", tmp_path / "m", fresh, bad)
    assert code == 0
    assert out.splitlines()[1] == "the model was fitted without a calibration set, so that nothing is flagged"
    assert json.loads(run("evaluate", tmp_path / "m", fresh, bad, "--json").out)["confusion"] is None


def test_what_cannot_be_evaluated(refused, model, fresh, bad, tmp_path):
    assert "does not exist" in refused("evaluate", model, fresh, tmp_path / "nowhere")
    assert "000.png is among the good and the bad" in refused("evaluate", model, tmp_path, bad)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_bytes(b"no image")
    assert "broken has no readable image" in refused("evaluate", model, fresh, tmp_path / "broken")
    assert "no image was found" in refused("evaluate", model, fresh, make_empty(tmp_path / "empty"))
    assert "missing argument 'BAD'" in refused("evaluate", model, fresh).lower().replace("bad", "BAD")


def make_empty(folder):
    folder.mkdir()
    return folder


def test_interrupted_it_keeps_the_rows_so_far(run, model, fresh, bad, tmp_path, monkeypatch):
    from normscope.model import Model

    def interrupted(self, *args, **kwargs):
        if len(rows) == 12:
            raise KeyboardInterrupt
        rows.append(row(self, *args, **kwargs))
        return rows[-1]

    rows, row = [], Model.row
    monkeypatch.setattr(Model, "row", interrupted)
    result = run("evaluate", model, fresh, bad, "--csv", tmp_path / "rows.csv")
    assert result.code == 130
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 1 + 12
