import json

import pytest

from normscope import load


@pytest.fixture
def verdicts(tmp_path, images):
    """A CSV file in which ten images are fine and two anomalous."""
    folder = images(tmp_path / "new", 12, seed=5)
    rows = [f'"{folder}/{number:03}.png","{"fine" if number < 10 else "anomalous"}"\r\n' for number in range(12)]
    (tmp_path / "verdicts.csv").write_bytes("".join(['"path","verdict"\r\n', *rows]).encode())
    return tmp_path / "verdicts.csv"


def test_people_read_what_changed(run, model, verdicts, tmp_path):
    code, out, err = run("recalibrate", model, verdicts, "-o", tmp_path / "new.safetensors")
    assert code == 0
    first, second, third, last = out.splitlines()
    assert first == "10 images reviewed as fine joined the 20 of the calibration set"
    before, after = load(model).calibration, load(tmp_path / "new.safetensors").calibration
    assert second == f"the threshold was {before.threshold:.4g} and is {after.threshold:.4g}"
    assert third == after.promise
    assert "30 calibration images (10 reviewed as fine)" in third
    assert last == f"wrote {tmp_path / 'new.safetensors'}"
    assert (
        f"2 images reviewed as anomalous; a fit can learn from them: normscope fit FOLDER --anomalies {verdicts}" in err
    )
    assert '"reviewed": 10' in run("info", tmp_path / "new.safetensors", "--json").out
    assert run("score", tmp_path / "new.safetensors", tmp_path / "new").err.count("(10 reviewed as fine)") == 1


def test_json_has_what_changed(run, model, verdicts, tmp_path):
    verdicts.write_bytes(verdicts.read_bytes() + b'"gone.png","fine"\r\n')
    code, out, err = run("recalibrate", model, verdicts, "-o", tmp_path / "m", "--json")
    result = json.loads(out)
    assert code == 3
    assert (result["joined"], result["images"], result["known"], len(result["anomalous"])) == (10, 30, 0, 2)
    assert [one["path"] for one in result["unreadable"]] == ["gone.png"]
    assert "gone.png cannot be read" in err
    assert result["threshold"] == load(tmp_path / "m").calibration.threshold


def test_a_model_is_replaced_only_by_force(run, refused, model, verdicts, tmp_path):
    own = tmp_path / "own"
    own.write_bytes(model.read_bytes())
    (tmp_path / "link").symlink_to(own)
    for name in ("own", "link"):
        line = refused("recalibrate", own, verdicts, "-o", tmp_path / name)
        assert "exists; give another name, or replace it with --force" in line
    assert own.read_bytes() == model.read_bytes()
    assert run("recalibrate", own, verdicts, "-o", own, "--force").code == 0
    assert len(load(own).calibration.scores) == 30


def test_verdicts_that_cannot_be_used(run, refused, model, verdicts, tmp_path):
    assert "verdicts.csv: No such file" in refused(
        "recalibrate", model, tmp_path / "no" / "verdicts.csv", "-o", tmp_path / "m"
    )
    (tmp_path / "bad.csv").write_text('path,verdict\n"a.png",anomalous\n')
    code, _, err = run("recalibrate", model, tmp_path / "bad.csv", "-o", tmp_path / "m")
    assert code == 2
    assert "bad.csv calls no image fine; there is nothing to calibrate with" in err
    (tmp_path / "gone.csv").write_text('path,verdict\n"a.png",fine\n')
    code, _, err = run("recalibrate", model, tmp_path / "gone.csv", "-o", tmp_path / "m")
    assert code == 2
    assert "none of 1 image reviewed as fine can be read; paths are relative to the folder" in err
    assert not (tmp_path / "m").exists()


def test_verdicts_are_anomalies_to_learn_from(run, refused, good, verdicts, tmp_path):
    options = ("--method", "surprisal", "--set", "width=16", "--epochs", "1", "--allow-collapse")
    assert run("fit", good, "-o", tmp_path / "m", "--anomalies", verdicts, *options).code == 0
    assert load(tmp_path / "m").card["data"]["anomalies"] == 2
    verdicts.write_text("path,verdict\na.png,fine\n")
    assert "calls no image anomalous" in refused("fit", good, "-o", tmp_path / "n", "--anomalies", verdicts, *options)
