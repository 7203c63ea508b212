"""What anomalies hidden among the normal images cost, how many of them `fit` names, and what excluding them gains.

Up to a tenth of 2,000 training images are exchanged for those of other classes, which no one has told the detector of.
Scored are 2,000 random test images, the same for all. Everything is done without and with the exclusion of outliers.
"""

import itertools

import numpy as np
import torch
from figures import COLOURS, panels, save
from options import read_options

from normscope import Detector, datasets
from normscope.benchmark.metrics import auroc
from normscope.settings import to_json
from normscope.tables.names import title

options = read_options(__doc__, "results/contamination.jsonl", "docs/contamination.png")
torch.set_num_threads(options.threads)
normals, tests = (200, 60) if options.quick else (2000, 2000)
shares = (0.0, 0.1) if options.quick else (0.0, 0.01, 0.05, 0.1)
methods = ("surprisal",) if options.quick else ("surprisal", "pretrained", "auto")


def measure(dataset: str, normal: int, method: str, share: float, excluding: bool) -> dict:
    data = datasets.load(dataset, options.data_root)
    task = data.task(normal)
    others = np.concatenate([data.task(other).train_images for other in range(10) if other != normal])
    rng = np.random.default_rng(0)
    images = task.train_images[:normals].copy()
    hidden = rng.choice(len(images), round(share * len(images)), replace=False)
    images[hidden] = others[rng.choice(len(others), len(hidden), replace=False)]
    detector = Detector(method, budget=options.budget, epochs=options.epochs, device="cpu")
    detector.fit(images, allow_collapse=True, exclude_outliers=excluding)
    tested = np.random.default_rng(1).permutation(len(task.test_images))[:tests]
    scores = detector.score(task.test_images[tested])
    named = {outlier.position for outlier in detector.outliers}
    return {
        "settings": to_json(detector.options.settings),
        "seed": 0,
        "metrics": {"auroc": round(auroc(scores, task.test_labels.look()[tested]), 6)},
        "images": len(images),
        "tests": len(scores),
        "hidden": len(hidden),
        "named": len(named),
        "named_rightly": len(named & set(hidden.tolist())),
        "steps": detector.card["training"]["steps"],
        "health": detector.card["training"]["health"],
    }


keys = [(*task, *rest) for task, *rest in itertools.product(options.tasks, methods, shares, (False, True))]
found = options.lines(("dataset", "normal", "method", "share", "excluding"), keys, measure)
figure, axes = panels([title(*task) for task in options.tasks])
for axis, (dataset, normal) in zip(axes, options.tasks, strict=True):
    for colour, method in zip(COLOURS, methods, strict=False):
        for excluding, marks in ((False, "o-"), (True, "^--")):
            own = [found[dataset, normal, method, share, excluding] for share in shares]
            axis.plot(
                [100 * share for share in shares],
                [100 * result["metrics"]["auroc"] for result in own],
                marks,
                color=colour,
                label=f"{method}: AUROC" + excluding * ", outliers excluded",
            )
        axis.plot(
            [100 * result["share"] for result in own if result["hidden"]],
            [100 * result["named_rightly"] / result["hidden"] for result in own if result["hidden"]],
            "o:",
            color=colour,
            markersize=4,
            label=f"{method}: share of the hidden that is named",
        )
    axis.set(xlabel="anomalies among the training images, %", ylim=(0, 100))
axes[0].set_ylabel("%")
axes[len(axes) // 2].legend(fontsize=8, loc="center")
save(figure, options.picture)
