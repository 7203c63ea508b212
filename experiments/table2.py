"""Table 2 of the paper: the three scores of one trained base model, tested several times with other views.

The paper's means and SDs over repetitions on CIFAR-10: rand 86.4 ± 1.04, mc 86.9 ± 0.05, ori 86.7 without any. A
repetition draws other views for each image. mc sees every image 200 times, hence a random part of the test images. The
reading is the one that works; in the literal one the codes collapse, and no score has anything to tell apart.
"""

import statistics
import time

import numpy as np
import torch
from figures import COLOURS, chance, panels, save
from options import read_options

from normscope import Detector, datasets, inference
from normscope.benchmark.curve import part
from normscope.benchmark.metrics import auroc
from normscope.intake import read
from normscope.settings import build, to_json
from normscope.tables.names import title

REPETITIONS = {"rand": 10, "mc": 3, "ori": 1}  # one random pair of views, 100 of them, the image itself
EPOCHS = 2  # the preset's 300 steps or a few more

options = read_options(__doc__, "results/scores.jsonl", "docs/table2.png")
torch.set_num_threads(options.threads)
most, pairs = (40, 3) if options.quick else (200, 100)
settings = {"score_pairs": pairs}


def scores_by(model, score: str, seed: int, pixels) -> np.ndarray:
    """The same weights under another score."""
    other = build(type(model.method.settings), {**settings, "score": score, "score_seed": seed})
    method = type(model.method)(other, model.method.shape)
    method.load_state_dict(model.method.state_dict())
    return inference.scores(method, {}, inference.encoded(method, pixels, model.device))


def measure(dataset: str, normal: int) -> dict:
    task = datasets.load(dataset, options.data_root).task(normal)
    images, chosen = part(task.test_images, most)
    detector = Detector("base", settings=settings, budget=None, epochs=EPOCHS, false_alarm_rate=None, device="cpu").fit(
        task.train_images, allow_collapse=True
    )
    scores, seconds = {}, {}
    pixels = read(images, detector.model.size)
    for score, repetitions in REPETITIONS.items():
        began = time.perf_counter()
        scores[score] = [scores_by(detector.model, score, r, pixels) for r in range(repetitions)]
        seconds[score] = round((time.perf_counter() - began) / repetitions, 2)
    is_anomaly = task.test_labels.look()[chosen]
    return {
        "method": "base",
        "settings": to_json(detector.options.settings),
        "seed": 0,
        "budget": None,
        "epochs": EPOCHS,
        "test_images": most,
        "auroc": {score: [round(auroc(one, is_anomaly), 6) for one in all_] for score, all_ in scores.items()},
        "seconds": seconds,
        "steps": detector.card["training"]["steps"],
        "health": detector.card["training"]["health"],
    }


found = options.lines(("dataset", "normal"), options.tasks, measure)
tasks = [task for task in options.tasks if task in found]
figure, axes = panels([title(*task) for task in tasks])
for axis, task in zip(axes, tasks, strict=True):
    for place, score in enumerate(REPETITIONS):
        values = 100 * np.array(found[task]["auroc"][score])
        axis.plot([place] * len(values), values, "o", color=COLOURS[place], alpha=0.6)
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        axis.annotate(
            f"{values.mean():.1f}{spread}", (place, values.max()), (0, 6), textcoords="offset points", ha="center"
        )
    chance(axis)
    axis.set_xticks(range(len(REPETITIONS)), REPETITIONS)
    axis.set(xlim=(-0.6, len(REPETITIONS) - 0.4))
    axis.margins(y=0.25)
axes[0].set_ylabel("AUROC in %")
save(figure, options.picture)
