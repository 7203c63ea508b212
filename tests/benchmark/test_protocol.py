import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import normscope
from normscope.datasets import digits
from normscope.evaluation import protocol
from normscope.evaluation.protocol import Cell, cell_of, commit, measure, run
from normscope.methods import settings_of
from normscope.settings import to_json

CELL = Cell("digits", "knn", 3, 0, 60.0, to_json(settings_of("knn")()))


def test_a_row_finds_its_cell_again_after_json():
    for cell in (
        CELL,
        replace(CELL, budget=None),
        replace(CELL, settings={"beta": "auto", "scales": [1, 2], "x": 0.1}),
    ):
        row = json.loads(json.dumps({**vars(cell), "metrics": None}))
        assert cell_of(row) == cell.key()


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "mnist"},
        {"method": "pca"},
        {"normal": 4},
        {"seed": 1},
        {"budget": 61.0},
        {"settings": {}},
        {"epochs": 3},
        {"every": 1},
    ],
)
def test_whatever_differs_makes_another_cell(change):
    assert replace(CELL, **change).key() != CELL.key()


def test_the_order_of_settings_does_not():
    assert replace(CELL, settings=dict(reversed(CELL.settings.items()))).key() == CELL.key()


def test_a_row_says_what_was_measured_and_with_what():
    row = run(CELL, None, 1)
    assert {name: row[name] for name in vars(CELL)} == vars(CELL)
    assert row["error"] is None
    assert row["metrics"]["auroc"] == pytest.approx(0.98, abs=0.02)  # 3 against the others, by nearest pixels
    assert row["seconds"]["fit"] >= 0
    assert row["images_per_second"] > 0
    assert (row["version"], row["torch"], row["threads"]) == (normscope.__version__, torch.__version__, 1)
    assert (row["health"], row["steps"]) == ("ok", 0)
    assert row["data"] == digits.load().sha256
    low, high = row["intervals"]["auroc"]
    assert low < row["metrics"]["auroc"] < high
    json.dumps(row, allow_nan=False)


def test_a_row_carries_what_shows_that_nothing_leaked():
    data = digits.load()
    found = run(CELL, None, 1)["protocol"]
    assert found["looks_at_test_labels_before_the_scores"] == 0
    assert found["eval_mode"] is True
    assert (found["trained_on"], found["held_out"]) == ((data.train_labels == 3).sum(), 0)
    assert len(found["training_sha256"]) == 64


def test_a_method_that_peeks_is_seen(monkeypatch):
    """The count is of what really happened, not a promise."""
    task = digits.load().task(3)

    class Peeking:
        name, class_names, sha256 = "digits", tuple("0123456789"), ""

        def task(self, normal):
            return task

    fit = protocol.Detector.fit

    def peeks(self, images, **options):
        task.test_labels.look()
        return fit(self, images, **options)

    monkeypatch.setattr(protocol.Detector, "fit", peeks)
    assert measure(CELL, Peeking())["protocol"]["looks_at_test_labels_before_the_scores"] == 1


def test_a_part_of_the_test_images_is_another_cell_and_is_scored_alone():
    whole, some = run(CELL, None, 1), run(replace(CELL, test_images=100), None, 1)
    assert replace(CELL, test_images=100).key() != CELL.key()
    assert some["images_per_second"] > 0
    assert some["metrics"] != whole["metrics"]
    assert some["metrics"]["auroc"] == pytest.approx(whole["metrics"]["auroc"], abs=0.05)
    assert some["intervals"]["auroc"][0] < whole["intervals"]["auroc"][0]  # fewer images, less certain


def test_masks_give_figures_for_the_heat_maps(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for part, count in (("train/good", 12), ("test/good", 3), ("test/spot", 3)):
        (tmp_path / part).mkdir(parents=True)
        for number in range(count):
            image = rng.integers(100, 130, (32, 32), dtype=np.uint8)
            if part == "test/spot":
                image[4:14, 4:14] = 255
            Image.fromarray(image).save(tmp_path / part / f"{number}.png")
    (tmp_path / "ground_truth" / "spot").mkdir(parents=True)
    mask = np.zeros((32, 32), np.uint8)
    mask[4:14, 4:14] = 255
    for number in range(3):
        Image.fromarray(mask).save(tmp_path / "ground_truth" / "spot" / f"{number}_mask.png")
    cell = Cell("folder", "surprisal", 0, 0, None, {}, epochs=1)
    row = run(cell, tmp_path, 1)
    assert row["error"] is None
    assert row["metrics"]["pixel_auroc"] > 0.7
    assert 0 < row["metrics"]["pro"] <= 1


def test_training_sees_the_whole_normal_class_and_no_label(monkeypatch):
    seen, fit = [], protocol.Detector.fit

    def watched(self, images, **options):
        seen.append(images)
        fit(self, images, **options)
        assert self.card["data"]["trained_on"] == len(images), "some were held out"
        return self

    monkeypatch.setattr(protocol.Detector, "fit", watched)
    data = digits.load()
    row = measure(CELL, data)
    assert np.array_equal(seen[0], data.train_images[data.train_labels == 3])
    # Were the labels of the test images others, nothing but the metrics would change.
    renamed = replace(data, test_labels=np.where(data.test_labels == 3, 3, 4))
    assert measure(CELL, renamed)["metrics"] == row["metrics"]


@pytest.mark.parametrize(
    "error", [RuntimeError("out of memory"), ValueError("not finite"), KeyError("x"), MemoryError()]
)
def test_any_failure_is_a_row(monkeypatch, error):
    def fails(*args, **kwargs):
        raise error

    monkeypatch.setattr(protocol, "measure", fails)
    row = run(CELL, None, 1)
    assert row["error"].startswith(type(error).__name__)
    assert row["metrics"] is None


def test_an_interrupt_is_not_a_failure(monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(protocol, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(CELL, None, 1)


def test_a_collapse_is_recorded_and_not_hidden(monkeypatch):
    from normscope.training import health

    monkeypatch.setattr(health, "LEAST_SPREAD", float("inf"))
    cell = replace(CELL, method="surprisal", budget=0.01, settings={"width": 16})
    row = run(cell, None, 1)
    assert row["error"] is None
    assert row["health"].startswith("collapsed")


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_the_commit_is_of_this_package_and_not_of_a_checkout_around_it(tmp_path):
    """Installed below somebody's checkout, as in .venv, the package has no commit."""
    here = tmp_path / ".venv" / "lib" / "site-packages" / "normscope" / "evaluation" / "protocol.py"
    here.parent.mkdir(parents=True)
    for arguments in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"],
    ):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)

    def commit_of(file: Path) -> str | None:
        commit.cache_clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(protocol, "__file__", str(file))
            return commit()

    assert commit_of(here) is None
    checkout = tmp_path / "src" / "normscope" / "evaluation" / "protocol.py"
    checkout.parent.mkdir(parents=True)
    assert len(commit_of(checkout).rstrip("+")) >= 7
    commit.cache_clear()


def test_threads_are_those_asked_for_and_then_as_before(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(protocol, "measure", lambda cell, data: {"metrics": torch.get_num_threads()})
    assert [run(CELL, None, threads)["metrics"] for threads in (1, 2)] == [1, 2]
    assert torch.get_num_threads() == before
