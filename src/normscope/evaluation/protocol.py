"""One cell of the benchmark: fit on one class alone, score the test images, compare with the labels afterwards."""

import platform
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from normscope import __version__, datasets
from normscope.datasets.task import Benchmark, Task
from normscope.evaluation.curve import Curve, part
from normscope.evaluation.heat import heat_metrics
from normscope.evaluation.intervals import intervals
from normscope.evaluation.metrics import auprc, auroc, fpr95
from normscope.fitting import fit
from normscope.intake import read
from normscope.model import Model
from normscope.options import checked
from normscope.settings import JSON


@dataclass(frozen=True)
class Cell:
    """What is measured: nothing here is known from test labels.

    `epochs` and `budget` (seconds) are upper limits. `every` asks for the curve of the metrics after so many epochs.
    `test_images` scores a random part of the test images, the same for every method and seed, where a score is slow.
    """

    dataset: str
    method: str
    normal: int
    seed: int
    budget: float | None
    settings: Mapping[str, JSON]
    epochs: int | None = None
    every: int | None = None
    test_images: int | None = None

    def key(self) -> tuple[object, ...]:
        """Two rows with the same key are the same measurement."""
        return tuple(repr(sorted(v.items())) if isinstance(v, Mapping) else v for v in vars(self).values())


def cell_of(row: Mapping[str, JSON]) -> tuple[object, ...]:
    """The key of the cell that a row was written for; what older rows do not say was not asked for."""
    late = ("epochs", "every", "test_images")
    known = {field.name: row.get(field.name) if field.name in late else row[field.name] for field in fields(Cell)}
    return Cell(**known).key()  # type: ignore[arg-type]


def run(cell: Cell, root: Path | None, threads: int) -> dict[str, JSON]:
    """The row of a cell. A failure is a row too, with its error."""
    before = torch.get_num_threads()
    row = blank(cell, threads)
    try:
        torch.set_num_threads(threads)
        row |= measure(cell, dataset(cell.dataset, root))
    except Exception as error:  # whatever it is, the other cells of the grid shall run
        row["error"] = f"{type(error).__name__}: {error}"
    finally:
        torch.set_num_threads(before)
    return row


def blank(cell: Cell, threads: int) -> dict[str, JSON]:
    """A row before anything was measured."""
    return {
        **asdict(cell),
        "metrics": None,
        "seconds": None,
        "images_per_second": None,
        "version": __version__,
        "torch": torch.__version__,
        "commit": commit(),
        "device": "cpu",
        "cpu": platform.processor() or platform.machine(),
        "threads": threads,
        "health": None,
        "error": None,
    }


def measure(cell: Cell, data: Benchmark) -> dict[str, JSON]:
    """Labels are looked at when all scores are there and not before; the row says so from a count."""
    task = data.task(cell.normal)
    test_images, chosen = part(task.test_images, cell.test_images)
    options = checked(
        cell.method,
        settings=cell.settings,
        seed=cell.seed,
        budget=cell.budget,
        epochs=cell.epochs,
        false_alarm_rate=None,  # nothing is held out: the protocol trains on the whole class
        device="cpu",
    )
    curve = Curve(cell.every or 0, test_images, chosen)
    began = time.perf_counter()
    model = fit(task.train_images, options, allow_collapse=True, observer=curve).model
    fitted = time.perf_counter()
    pixels = read(test_images, model.size)
    scores = model.scores(pixels)
    scored = time.perf_counter()
    conduct = protocol(model, task)
    labels = task.test_labels.look()
    found = metrics(scores, labels[chosen])
    if task.test_masks is not None and model.method.explains:
        found |= heat_metrics(model, pixels, [task.test_masks[i] for i in chosen], labels[chosen])
    return {
        "metrics": {name: round(value, 6) for name, value in found.items()},
        "intervals": {
            name: [round(low, 6), round(high, 6)] for name, (low, high) in intervals(scores, labels[chosen]).items()
        },
        "seconds": {"fit": round(fitted - began - curve.seconds, 2), "score": round(scored - fitted, 2)},
        "images_per_second": round(len(scores) / (scored - fitted), 1),
        "health": model.card["training"]["health"],
        "steps": model.card["training"]["steps"],
        "data": data.sha256,
        "protocol": conduct,
        **({"curve": curve.rows(labels)} if cell.every else {}),
    }


def metrics(scores: NDArray[np.float64], is_anomaly: NDArray[np.bool_]) -> dict[str, float]:
    return {"auroc": auroc(scores, is_anomaly), "auprc": auprc(scores, is_anomaly), "fpr95": fpr95(scores, is_anomaly)}


def protocol(model: Model, task: Task) -> dict[str, JSON]:
    """What shows that nothing leaked, as it is once the scores are there and before any label is used."""
    data = model.card["data"]
    return {
        "looks_at_test_labels_before_the_scores": task.test_labels.looks,
        "eval_mode": not any(module.training for module in model.method.modules()),
        "weights": "last step",  # the loop keeps no others
        "trained_on": data["trained_on"],
        "held_out": data["images"] - data["trained_on"],
        "training_sha256": data["sha256"],
    }


@cache
def dataset(name: str, root: Path | None) -> Benchmark:
    return datasets.load(name, root)


@cache
def commit() -> str | None:
    """The commit of a source checkout, with a plus if the source differs from it; None for an installed package."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():  # an environment inside somebody else's checkout has that one's commit
        return None
    try:
        name = git(root, "rev-parse", "--short", "HEAD")
        return name + ("+" if git(root, "status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
