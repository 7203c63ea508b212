import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import normscope
from normscope.benchmark import protocol
from normscope.benchmark.cell import Cell
from normscope.benchmark.protocol import measure, run
from normscope.datasets import digits
from normscope.fitting import fit
from normscope.methods import settings_of
from normscope.settings import to_json

CELL = Cell("digits", "knn", 3, 0, 60.0, to_json(settings_of("knn")()))


@pytest.fixture(scope="module")
def result() -> dict:
    return run(CELL, None)


def test_a_result_says_what_was_measured_and_with_what(result):
    assert {name: result[name] for name in vars(CELL)} == vars(CELL)
    assert result["error"] is None
    assert result["metrics"]["auroc"] == pytest.approx(0.98, abs=0.02)  # 3 against the others, by nearest pixels
    assert result["seconds"]["fit"] >= 0
    assert result["images_per_second"] > 0
    assert (result["version"], result["torch"], result["threads"]) == (
        normscope.__version__,
        torch.__version__,
        torch.get_num_threads(),
    )
    assert (result["health"], result["steps"]) == ("ok", 0)
    assert result["data"] == digits.load().sha256
    low, high = result["intervals"]["auroc"]
    assert low < result["metrics"]["auroc"] < high
    json.dumps(result, allow_nan=False)


def test_a_result_carries_what_shows_that_nothing_leaked(result):
    data, found = digits.load(), result["protocol"]
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

    def peeks(*given, **options):
        task.test_labels.look()
        return fit(*given, **options)

    monkeypatch.setattr(protocol, "fit", peeks)
    assert measure(CELL, Peeking())["protocol"]["looks_at_test_labels_before_the_scores"] == 1


def test_a_part_of_the_test_images_is_scored_alone(result):
    whole, some = result, run(replace(CELL, test_images=100), None)
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
    result = run(cell, tmp_path)
    assert result["error"] is None
    assert result["metrics"]["pixel_auroc"] > 0.7
    assert 0 < result["metrics"]["pro"] <= 1


def test_training_sees_the_whole_normal_class_and_no_label(monkeypatch):
    seen = []

    def watched(images, *given, **options):
        seen.append(images)
        fitted = fit(images, *given, **options)
        assert fitted.model.card["data"]["trained_on"] == len(images), "some were held out"
        return fitted

    monkeypatch.setattr(protocol, "fit", watched)
    data = digits.load()
    measured = measure(CELL, data)
    assert np.array_equal(seen[0], data.train_images[data.train_labels == 3])
    # Were the labels of the test images others, nothing but the metrics would change.
    renamed = replace(data, test_labels=np.where(data.test_labels == 3, 3, 4))
    assert measure(CELL, renamed)["metrics"] == measured["metrics"]


@pytest.mark.parametrize(
    "error", [RuntimeError("out of memory"), ValueError("not finite"), KeyError("x"), MemoryError()]
)
def test_any_failure_is_a_result(monkeypatch, error):
    def fails(*args, **kwargs):
        raise error

    monkeypatch.setattr(protocol, "measure", fails)
    result = run(CELL, None)
    assert result["error"].startswith(type(error).__name__)
    assert result["metrics"] is None


def test_a_value_that_is_not_finite_is_a_failure(monkeypatch):
    monkeypatch.setattr(protocol, "measure", lambda cell, data, device: {"curve": [{"loss": float("nan")}]})
    assert run(CELL, None)["error"].startswith("ValueError: Out of range float")


def test_an_interrupt_is_not_a_failure(monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(protocol, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(CELL, None)


def test_a_collapse_is_recorded_and_not_hidden(monkeypatch):
    from normscope.training import health

    monkeypatch.setattr(health, "LEAST_SPREAD", float("inf"))
    cell = replace(CELL, method="surprisal", budget=0.01, settings={"width": 16})
    result = run(cell, None)
    assert result["error"] is None
    assert result["health"].startswith("collapsed")
