"""One cell of the benchmark: fit on one class alone, score the test images, compare with the labels afterwards."""

import json
import time
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from normscope import datasets
from normscope.benchmark.cell import Cell, unmeasured
from normscope.benchmark.curve import Curve, part
from normscope.benchmark.heat import heat_metrics
from normscope.benchmark.intervals import intervals
from normscope.benchmark.metrics import METRICS
from normscope.benchmark.results import Result
from normscope.datasets.task import Benchmark, Task
from normscope.fitting import fit
from normscope.intake import read
from normscope.model import Model
from normscope.options import checked
from normscope.settings import JSON


def run(cell: Cell, root: Path | None, device: str = "cpu") -> Result:
    """The result of a cell; a failure is one too, with its error."""
    result = unmeasured(cell, torch.get_num_threads()) | {"device": device}
    try:
        measured = measure(cell, dataset(cell.dataset, root), device)
        json.dumps(measured, allow_nan=False)  # a value that is not finite is a failure
        return result | measured
    except Exception as error:  # whatever it is, the other cells of the grid shall run
        return result | {"error": f"{type(error).__name__}: {error}"}


def measure(cell: Cell, data: Benchmark, device: str = "cpu") -> dict[str, JSON]:
    """Labels are looked at after all scores are computed; `protocol` shows how often they were looked at before."""
    task = data.task(cell.normal)
    test_images, chosen = part(task.test_images, cell.test_images)
    options = checked(
        cell.method,
        settings=cell.settings,
        seed=cell.seed,
        budget=cell.budget,
        epochs=cell.epochs,
        false_alarm_rate=None,  # nothing is held out: the protocol trains on the whole class
        device=device,
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
    return {name: metric(scores, is_anomaly) for name, metric in METRICS.items()}


def protocol(model: Model, task: Task) -> dict[str, JSON]:
    """Evidence that nothing leaked, gathered after scoring and before labels are used."""
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
    """Loaded once in each process."""
    return datasets.load(name, root)
