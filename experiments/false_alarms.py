"""Whether the promised false-alarm rate is kept: refits with other images, and fresh normal ones.

For each refit, 200 normal images are drawn at random to fit on, and up to 500 others, of training and test set, are
scored. What is promised is a mean over such draws; its standard error is computed from the refits. All draws are from
one data set, so that they overlap. Of magnetic tiles there are fewer: 100 to fit on, 400 others, by what `fit` chooses
for photographs, at 192 pixels.
"""

import itertools
import math
from pathlib import Path

import numpy as np
import torch
from figures import COLOURS, panels, save
from options import read_options

from normscope import Detector, datasets
from normscope.datasets import folder as folders
from normscope.datasets.published import data_folder
from normscope.tables.names import title

options = read_options(__doc__, "results/false_alarms.jsonl", "docs/false_alarms.png", budget="10s")
torch.set_num_threads(options.threads)
refits, normals, fresh = (4, 40, 60) if options.quick else (50, 200, 500)
photographs, few, size = "magnetic-tile", 100, (192, 224)
methods = ("knn", "pca") if options.quick else ("knn", "pca", "random-encoder", "pretrained", "surprisal")
rates = (0.05, 0.01)


def normal_images(dataset: str, normal: int) -> np.ndarray:
    """Pixels, or paths of files."""
    if dataset == photographs:
        data = folders.load(data_folder(options.data_root, dataset))
    else:
        data = datasets.load(dataset, options.data_root)
    task = data.task(normal)
    return np.concatenate([task.train_images, np.asarray(task.test_images)[~task.test_labels.look()]])


def drawn(images: np.ndarray, order: np.ndarray) -> np.ndarray | list[Path]:
    return list(images[order]) if images.dtype == object else images[order]


def measure(dataset: str, normal: int, method: str) -> dict:
    images, flagged = normal_images(dataset, normal), np.empty((refits, len(rates)))
    fitted, side = (few, size) if dataset == photographs else (normals, "auto")
    for draw in range(refits):
        order = np.random.default_rng(draw).permutation(len(images))
        detector = Detector(method, size=side, seed=draw, budget=options.budget, epochs=options.epochs, device="cpu")
        detector.fit(drawn(images, order[:fitted]), allow_collapse=True)
        scores = detector.score(drawn(images, order[fitted : fitted + fresh]))
        flagged[draw] = [detector.calibration.at(rate).anomalous(scores).mean() for rate in rates]
    calibrations = [detector.calibration.at(rate) for rate in rates]
    return {
        "settings": detector.card["settings"],
        "seed": 0,
        "images": fitted,
        "fresh": len(scores),
        "refits": refits,
        "kind": detector.calibration.kind,
        "calibration_images": len(detector.calibration.scores),
        "promised": [one.achievable for one in calibrations],
        "flagged": [round(float(one), 6) for one in flagged.mean(0)],
        "standard_error": [round(float(one), 6) for one in flagged.std(0, ddof=1) / math.sqrt(refits)],
    }


keys = [(*task, method) for task, method in itertools.product(options.tasks, methods)]
keys += [] if options.quick else [(photographs, 0, "auto")]
found = options.lines(("dataset", "normal", "method"), keys, measure)
figure, axes = panels([title(*task) for task in options.tasks])
for axis, (dataset, normal) in zip(axes, options.tasks, strict=True):
    for place, (colour, rate) in enumerate(zip(COLOURS, rates, strict=False)):
        own = [found[dataset, normal, method] for method in methods]
        axis.errorbar(
            [100 * line["flagged"][place] for line in own],
            methods,
            xerr=[200 * line["standard_error"][place] for line in own],
            fmt="o",
            color=colour,
            label=f"asked for {100 * rate:g} %",
        )
        axis.plot([100 * line["promised"][place] for line in own], methods, "|", color=colour, markersize=16)
    axis.set(xlabel="fresh normal images flagged, % (± 2 SE; bar: promised)", xlim=(0, None))
axes[0].legend(fontsize=8)
save(figure, options.picture)
