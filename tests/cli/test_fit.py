import errno
import json
import math
import os
import re
from pathlib import Path

import pytest
from PIL import Image

from normscope import load
from normscope.training import health


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def out(tmp_path) -> Path:
    """An empty folder to write into; what is left there is looked at."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_json_has_what_others_rely_on(run, good, out):
    code, printed, err = run("fit", good, "-o", out / "m", "--method", "knn", "--json", "--false-alarm-rate", "0.2")
    result = json.loads(printed)
    assert code == 0
    assert err == ""
    assert result.keys() >= {"model", "images", "skipped", "seconds", "threshold", "health"}
    assert (result["model"], result["images"], result["skipped"]) == (str(out / "m"), 20, 0)
    assert result["health"] == "ok"
    assert result["threshold"] == load(out / "m").calibration.threshold
    assert leftovers(out) == ["m"]


def test_people_read_what_was_learnt(run, good, out):
    code, printed, err = run("fit", good, "-o", out / "m", "--method", "knn")
    assert code == 0
    first, second, third = printed.splitlines()
    assert first.startswith("learnt from 20 images in ")
    assert second.startswith("scores above ")
    assert " are anomalous: about 4.76 % of normal images on average over draws; with these 20 cal" in second
    assert second.endswith("calibration images between 0.256 % and 13.9 % (90 % sure)")  # Beta(1, 20)
    assert third == f"wrote {out / 'm'} ({(out / 'm').stat().st_size / 1e6:.1f} MB)"
    assert err.startswith("note: 20 calibration images can promise")


def test_options_reach_the_model(run, good, out):
    options = "--method surprisal --set width=16 --set beta=auto --epochs 1 --size 32 --seed 3 --false-alarm-rate 0.2"
    assert run("fit", good, "-o", out / "m", "--allow-collapse", *options.split()).code == 0
    card = load(out / "m").card
    assert card["settings"].items() >= {"width": 16, "beta": "auto"}.items()
    assert card["preprocessing"]["size"] == [32, 32]
    assert card["training"].items() >= {"epochs": 1, "seed": 3, "budget": None}.items()
    assert card["calibration"]["rate"] == 0.2
    assert leftovers(out) == ["m"]


@pytest.mark.parametrize(
    ("size", "expected"), [("auto", [28, 60]), ("32x64", [32, 64]), ("64X40", [64, 40]), ("30", [30, 30])]
)
def test_size_is_height_and_width(run, images, tmp_path, out, size, expected):
    folder = images(tmp_path / "wide", 12, shape=(28, 60))
    code, _, err = run("fit", folder, "-o", out / "m", "--method", "pca", "--size", size)
    assert code == 0
    assert load(out / "m").card["preprocessing"]["size"] == expected
    assert ("times as wide as high" in err) is (size not in ("auto", "32x64"))
    assert run("score", out / "m", folder, "--json").code == 0
    assert "HEIGHTxWIDTH" in run("fit", "--help").out


def test_squashed_images_are_a_note(run, images, tmp_path, out):
    folder = images(tmp_path / "wide", 12, shape=(28, 60))
    code, _, err = run(
        "fit",
        folder,
        "-o",
        out / "m",
        "--method",
        "surprisal",
        "--set",
        "width=16",
        "--epochs",
        "1",
        "--allow-collapse",
    )
    assert code == 0
    assert err.splitlines()[0].startswith(
        "note: the images are 2.14 times as wide as high and are squashed to 28x28 (height x width); one of knn, "
    )


def test_a_budget_too_short_to_learn_is_said(run, good, out):
    code, _, err = run(
        "fit",
        good,
        "-o",
        out / "m",
        "--method",
        "surprisal",
        "--set",
        "width=16",
        "--budget",
        "0.01s",
        "--allow-collapse",
    )
    assert code == 0
    assert "note: there was time for 1 training step only; give a larger --budget" in err.splitlines()
    code, _, err = run(
        "fit", good, "-o", out / "m", "--method", "surprisal", "--set", "width=16", "--epochs", "1", "--allow-collapse"
    )
    assert "training step" not in err


def test_an_existing_model_is_replaced(run, good, out):
    (out / "m").write_text("what was there")
    assert run("fit", good, "-o", out / "m", "--method", "knn").code == 0
    assert load(out / "m").card["method"] == "knn"
    assert leftovers(out) == ["m"]


def test_broken_files_among_good_ones_are_a_note(run, images, tmp_path, out):
    folder = images(tmp_path / "some", 10)
    (folder / "cut.png").write_bytes((folder / "000.png").read_bytes()[:50])
    code, printed, err = run("fit", folder, "-o", out / "m", "--method", "knn", "--json")
    assert code == 3
    assert json.loads(printed)["skipped"] == 1
    assert f"note: 1 file skipped; `normscope doctor {folder}` says why" in err.splitlines()


def test_files_that_are_no_images_are_no_failure(run, images, tmp_path, out):
    folder = images(tmp_path / "some", 10)
    (folder / "notes.txt").write_text("no image")
    assert run("fit", folder, "-o", out / "m", "--method", "knn").code == 0


def test_an_encoder_chooses_the_method_and_contradicts_any_other(refused, good, out):
    line = refused("fit", good, "-o", out / "m", "--method", "surprisal", "--encoder", "efficientnet-lite0")
    assert "the method surprisal has no pretrained encoder; leave out --method or --encoder" in line


def test_no_epochs_are_the_untrained_control(run, good, out):
    code, _, _ = run(
        "fit", good, "-o", out / "m", "--method", "surprisal", "--set", "width=16", "--epochs", "0", "--json"
    )
    assert code == 0
    assert load(out / "m").card["training"].items() >= {"epochs": 0, "steps": 0}.items()


def test_resume_without_a_checkpoint_says_so(run, good, out):
    code, _, err = run("fit", good, "-o", out / "m", "--method", "knn", "--resume")
    assert code == 0
    assert "m.checkpoint to go on from; training starts anew" in err.splitlines()[0]


def test_a_checkpoint_that_will_be_replaced_is_said(run, good, out):
    (out / "m.checkpoint").write_text("of an earlier run")
    code, _, err = run(
        "fit", good, "-o", out / "m", "--method", "surprisal", "--set", "width=16", "--epochs", "1", "--allow-collapse"
    )
    assert code == 0
    assert "--resume would go on from it" in err.splitlines()[0]
    assert leftovers(out) == ["m"]


def empty(folder: Path) -> None:
    folder.mkdir()


def texts_only(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("no image")


def broken_only(folder: Path) -> None:
    folder.mkdir()
    for number in range(9):
        (folder / f"{number}.jpg").write_bytes(b"\xff\xd8\xff broken")


def one_image(folder: Path) -> None:
    folder.mkdir()
    Image.effect_noise((28, 28), 40).save(folder / "a.png")


def constant(folder: Path) -> None:
    folder.mkdir()
    for number in range(12):
        Image.new("L", (30, 30), number).save(folder / f"{number}.png")


def copies(folder: Path) -> None:
    folder.mkdir()
    image = Image.effect_noise((28, 28), 40)
    for number in range(12):
        image.save(folder / f"{number}.png")


def too_large(folder: Path) -> None:
    folder.mkdir()
    for number in range(9):
        Image.new("1", (10_000, 5_001 + number)).save(folder / f"{number}.png")


def a_file(folder: Path) -> None:
    folder.write_text("no folder")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "does not exist; check the spelling"),
        (empty, "has no readable image; `normscope doctor"),
        (texts_only, "has no readable image"),
        (broken_only, "has no readable image; `normscope doctor"),
        (one_image, "1 readable image is too few to learn from; give 8 or more"),
        (constant, "all 12 images are of a single colour"),
        (copies, "all 12 images are the same"),
        (too_large, "has no readable image"),
        (a_file, "cannot be read (not a readable PNG"),
    ],
)
def test_a_folder_that_cannot_be_learnt_from(refused, tmp_path, out, make, message):
    make(tmp_path / "given")
    assert message in refused("fit", tmp_path / "given", "-o", out / "m", "--method", "surprisal")
    assert leftovers(out) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "nothing"], "no method 'nothing'; choose from"),
        (["--set", "widht=4"], "no setting 'widht'; did you mean 'width'?"),
        (["--set", "width=wide"], "setting 'width' cannot be 'wide'; give a whole number"),
        (["--set", "width=0"], "setting 'width' cannot be 0"),
        (["--set", "batch_size=0"], "setting 'batch_size' cannot be 0"),
        (["--set", "width"], "has no value; write it as key=value"),
        (["--set", "width=16", "--set", "width=32"], "given twice"),
        (["--set", "information=nothing"], "setting 'information' cannot be 'nothing'; give one of"),
        (["--budget", "soon"], "'soon' is not a budget; write for instance 90s"),
        (["--budget", "0"], "'0' is not a budget"),
        (["--budget", "-5s"], "'-5s' is not a budget"),
        (["--epochs", "-1"], "epochs is -1"),
        (["--size", "27"], "size is 27; give auto, or pixels from 28 to 1024: one number for a square, or height"),
        (["--size", "20x560", "--method", "knn"], "size is (20, 560); give auto, or pixels from 28 to 1024"),
        (
            ["--method", "surprisal", "--size", "64x128"],
            "size is 64x128, and the method surprisal takes squares alone; give one number, or use",
        ),
        (["--size", "64x"], "size is '64x'; give auto, a number of pixels, or HEIGHTxWIDTH such as 224x560"),
        (["--size", "64x64x3"], "size is '64x64x3'"),
        (["--size", ""], "size is ''"),
        (["--size", "10000"], "size is 10000"),
        (["--size", "large"], "size is 'large'; give auto"),
        (["--size", "-5"], "size is '-5'"),
        (["--false-alarm-rate", "0"], "false-alarm rate 0.0 is not between 0 and 1"),
        (["--false-alarm-rate", "nan"], "not between 0 and 1"),
        (["--device", "abacus"], "no device 'abacus' here; choose from auto"),
    ],
)
def test_an_option_that_is_wrong(refused, good, out, options, message):
    method = () if "--method" in options else ("--method", "surprisal")
    assert message in refused("fit", good, "-o", out / "m", *method, *options)
    assert leftovers(out) == []


def test_nowhere_to_write(refused, good, out, monkeypatch):
    assert "is a folder; give the name of a file" in refused("fit", good, "-o", out)
    assert "nowhere does not exist; create it" in refused("fit", good, "-o", out / "nowhere" / "m")
    assert "File name too long" in refused("fit", good, "-o", out / ("m" * 300))
    (out / "file").touch()
    assert "file does not exist" in refused("fit", good, "-o", out / "file" / "m")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode))
    assert "out is not writable; write elsewhere" in refused("fit", good, "-o", out / "m")
    assert leftovers(out) == ["file"]


def test_a_disk_that_fills_up_leaves_nothing(refused, good, out, monkeypatch):
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "cannot be written: No space left on device" in refused("fit", good, "-o", out / "m", "--method", "knn")
    assert "No space left on device" in refused(
        "fit", good, "-o", out / "m", "--method", "surprisal", "--set", "width=16", "--epochs", "1"
    )
    assert leftovers(out) == []


def test_a_collapse_is_refused_unless_allowed(run, refused, good, out, monkeypatch):
    monkeypatch.setattr(health, "LEAST_SPREAD", math.inf)
    options = ["--method", "surprisal", "--set", "width=16", "--epochs", "1"]
    line = refused("fit", good, "-o", out / "m", *options)
    assert "collapsed" in line
    assert "--allow-collapse" in line
    assert leftovers(out) == []
    code, printed, _ = run("fit", good, "-o", out / "m", *options, "--allow-collapse", "--json")
    assert code == 0
    assert json.loads(printed)["health"].startswith("collapsed")


def test_training_is_not_lost_when_the_model_cannot_be_written(run, good, out, monkeypatch):
    options = ("--method", "surprisal", "--set", "width=16", "--epochs", "1", "--allow-collapse")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("normscope.artifact.write_atomically", full)
        code, _, err = run("fit", good, "-o", out / "m", *options)
    assert (code, leftovers(out)) == (2, ["m.checkpoint"])
    assert "cannot be written" in err
    assert run("fit", good, "-o", out / "m", *options, "--resume").code == 0
    assert leftovers(out) == ["m"]


def test_outliers_among_the_normal_images_are_named(run, images, tmp_path, out):
    folder = images(tmp_path / "good", 40)
    Image.new("RGB", (32, 32), "red").save(folder / "red.png")
    code, printed, err = run("fit", folder, "-o", out / "m", "--method", "pca", "--json")
    assert code == 0
    assert json.loads(printed)["outliers"] == [str(folder / "red.png")]
    *_, named, raised = err.splitlines()
    assert "1 image may not be normal (take those out that are not, or --exclude-outliers)" in err
    assert "red.png" in named
    assert re.fullmatch(r"note: with them the threshold is [\d.e+]+, without them [\d.e+]+", raised)
    code, printed, err = run("fit", folder, "-o", out / "m", "--method", "pca", "--json", "--exclude-outliers")
    result = json.loads(printed)
    assert (code, result["excluded"], result["outliers"]) == (0, 1, [str(folder / "red.png")])
    assert "1 image may not be normal (left out)" in err
    assert "with them the threshold" not in err
    assert load(out / "m").card["data"]["excluded"] == 1


def test_outliers_cannot_be_excluded_by_a_method_that_scores_slowly(refused, good, out):
    line = refused("fit", good, "-o", out / "m", "--method", "anogan", "--exclude-outliers")
    assert "the method anogan scores too slowly to look for outliers" in line
    assert leftovers(out) == []


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(run, images, tmp_path, out, monkeypatch):
    folder = images(tmp_path / "some", 40)
    (folder / "cut.png").write_bytes((folder / "000.png").read_bytes()[:50])
    (folder / "notes.txt").write_text("no image")
    (folder / "more.txt").write_text("no image")
    monkeypatch.chdir(out)
    options = ("--method", "surprisal", "--set", "width=16", "--epochs", "2", "--dry-run")
    code, printed, _ = run("fit", folder, *options)
    lines = printed.splitlines()
    assert code == 3
    assert lines[0] == "40 images found, 3 files skipped"
    assert lines[1] == "  2 × not an image by its name (.txt)"
    assert lines[3].startswith("method surprisal")
    assert lines[4] == "images of 28x28 (height x width)"
    assert lines[5] == "trained on 30 in 2 steps, calibrated with 10"
    assert lines[6].startswith("about ")
    assert lines[-2].endswith(" GB of memory")
    assert lines[-1] == "nothing was written"
    code, printed, _ = run("fit", folder, *options, "--json")
    result = json.loads(printed)
    assert result.items() >= {"images": 40, "skipped": 3, "method": "surprisal", "size": [28, 28], "steps": 2}.items()
    assert sum(result["left_out"].values()) == 3
    assert result["seconds"] > 0
    assert leftovers(out) == []


def test_a_dry_run_of_a_method_that_trains_nothing(run, good, out):
    code, printed, _ = run("fit", good, "-o", out / "m", "--method", "knn", "--dry-run")
    assert code == 0
    assert "fitted to all 20, calibrated by 16 folds of them" in printed.splitlines()
    assert leftovers(out) == []


def test_without_a_name_the_model_has_that_of_the_folder(run, refused, images, tmp_path, out, monkeypatch):
    folder = images(tmp_path / "good", 12)
    monkeypatch.chdir(out)
    assert run("fit", folder, "--method", "knn").code == 0
    assert leftovers(out) == ["good.safetensors"]
    assert "good.safetensors exists; give another name, or replace it with --force" in refused("fit", folder)
    assert run("fit", folder, "--method", "knn", "--dry-run").code == 0
    assert run("fit", folder, "--method", "pca", "--force").code == 0
    assert load(out / "good.safetensors").card["method"] == "pca"
    monkeypatch.chdir(folder)
    assert run("fit", ".", "--method", "knn").out.splitlines()[-1].startswith("wrote good.safetensors")
    assert "has no name that a model could have; give one with -o" in refused("fit", "/")


def test_a_tracker_that_is_none_is_refused_before_anything_is_read(refused, tmp_path):
    assert "track is 'wandb:x'; give tensorboard:FOLDER or mlflow:URI" in refused(
        "fit", tmp_path / "nowhere", "-o", tmp_path / "model.safetensors", "--track", "wandb:x"
    )
