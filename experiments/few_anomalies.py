"""What labelled anomalies of one class are worth against classes that nobody labelled: the paper's future work.

The normal class is learnt with 0, 1, 5, 20 or 100 training images of the next class as known anomalies. That class is
then left out of the test, so that the AUROC is about kinds of anomalies that were never seen.
"""

import itertools
import statistics

import numpy as np
import torch
from figures import COLOURS, panels, save
from options import read_options

from normscope import Detector, datasets
from normscope.benchmark.metrics import auroc
from normscope.settings import to_json
from normscope.tables.names import title

options = read_options(__doc__, "results/few_anomalies.jsonl", "docs/few_anomalies.png")
torch.set_num_threads(options.threads)
counts = (0, 2) if options.quick else (0, 1, 5, 20, 100)
methods = ("surprisal",) if options.quick else ("surprisal", "deep-sad")
settings = {"deep-sad": {"width": 16}}


def measure(seed: int, dataset: str, normal: int, method: str, count: int) -> dict:
    data = datasets.load(dataset, options.data_root)
    task, shown = data.task(normal), data.task((normal + 1) % 10)
    chosen = np.random.default_rng(seed).choice(len(shown.train_images), count, replace=False)
    detector = Detector(
        method,
        settings=settings.get(method),
        seed=seed,
        budget=options.budget,
        epochs=options.epochs,
        false_alarm_rate=None,
        device="cpu",
    ).fit(task.train_images, anomalies=shown.train_images[chosen] if count else None, allow_collapse=True)
    scores = detector.score(task.test_images)
    never_shown = shown.test_labels.look()
    return {
        "settings": to_json(detector.options.settings),
        "metrics": {
            "auroc": round(auroc(scores[never_shown], task.test_labels.look()[never_shown]), 6),
            "auroc_shown": round(auroc(*against(scores, task.test_labels.look(), never_shown)), 6),
        },
        "steps": detector.card["training"]["steps"],
        "health": detector.card["training"]["health"],
    }


def against(scores, is_anomaly, never_shown):
    """The normal images and those of the class that was shown."""
    kept = ~is_anomaly | ~never_shown
    return scores[kept], is_anomaly[kept]


keys = [
    (seed, *task, method, count)
    for seed, task, method, count in itertools.product(range(options.seeds), options.tasks, methods, counts)
]
found = options.lines(("seed", "dataset", "normal", "method", "anomalies"), keys, measure)
figure, axes = panels([title(*task) for task in options.tasks])
for axis, task in zip(axes, options.tasks, strict=True):
    for colour, method in zip(COLOURS, methods, strict=False):
        for metric, style, kind in (("auroc", "o-", "never shown"), ("auroc_shown", "o:", "the kind shown")):
            means = [
                statistics.mean(
                    100 * result["metrics"][metric]
                    for key, result in found.items()
                    if key[1:] == (*task, method, count)
                )
                for count in counts
            ]
            axis.plot(range(len(counts)), means, style, color=colour, markersize=4, label=f"{method}, {kind}")
    axis.set_xticks(range(len(counts)), [str(count) for count in counts])
    axis.set(xlabel="labelled anomalies")
axes[0].set_ylabel("AUROC in %")
axes[-1].legend(fontsize=8)
save(figure, options.picture)
