"""Table 2 of the paper: the three scores of one trained base model, ten repetitions of the test each.

The paper's means and SDs over repetitions on CIFAR-10: rand 86.4 ± 1.04, mc 86.9 ± 0.05, ori 86.7 without any. A
repetition draws other views. mc sees every image 200 times, hence a random part of the test images. β = 1 and c1 = √d:
at the paper's β = 20 and c1 = d the codes collapse at this budget, and no score has anything to tell apart.
"""

import statistics
import time

import numpy as np
import torch
from figures import COLOURS, chance, panels, save
from options import read_options

from normscope import Detector, datasets, inference
from normscope.benchmark import results
from normscope.benchmark.commit import commit
from normscope.benchmark.curve import part
from normscope.benchmark.metrics import auroc
from normscope.intake import read
from normscope.settings import build, to_json
from normscope.tables.names import title

REPETITIONS = 10
SCORES = ("rand", "mc", "ori")  # one random pair of views, 100 of them, the image itself

options = read_options(__doc__, "results/scores.jsonl", "docs/table2.png")
torch.set_num_threads(options.threads)
most, pairs = (40, 3) if options.quick else (500, 100)
settings = {"preset": "paper", "encoder": "tiny", "beta": 1.0, "clip_scale": "root", "score_pairs": pairs}


def scores_by(model, score: str, seed: int, pixels) -> np.ndarray:
    """The same weights under another score."""
    other = build(type(model.method.settings), {**settings, "score": score, "score_seed": seed})
    method = type(model.method)(other, model.method.shape)
    method.load_state_dict(model.method.state_dict())
    return inference.scores(method, {}, inference.encoded(method, pixels, model.device))


def measure(dataset: str, normal: int) -> dict:
    task = datasets.load(dataset, options.data_root).task(normal)
    images, chosen = part(task.test_images, most)
    detector = Detector(
        "base", settings=settings, budget=options.budget, epochs=options.epochs, false_alarm_rate=None, device="cpu"
    ).fit(task.train_images, allow_collapse=True)
    scores, seconds = {}, {}
    pixels = read(images, detector.model.size)
    for score in SCORES:
        began = time.perf_counter()
        repetitions = range(1 if score == "ori" else REPETITIONS)  # nothing is drawn for ori
        scores[score] = [scores_by(detector.model, score, r, pixels) for r in repetitions]
        seconds[score] = round((time.perf_counter() - began) / len(repetitions), 2)
    is_anomaly = task.test_labels.look()[chosen]
    return {
        "dataset": dataset,
        "method": "base",
        "settings": to_json(detector.options.settings),
        "normal": normal,
        "seed": 0,
        "budget": options.budget,
        "epochs": options.epochs,
        "test_images": most,
        "auroc": {score: [round(auroc(one, is_anomaly), 6) for one in all_] for score, all_ in scores.items()},
        "seconds": seconds,
        "steps": detector.card["training"]["steps"],
        "health": detector.card["training"]["health"],
        "commit": commit(),
        "error": None,
    }


found = {(row["dataset"], row["normal"]): row for row in results.read(options.out)}
for task in options.tasks:
    if task not in found:
        found[task] = measure(*task)
        results.append(options.out, found[task])
figure, axes = panels([title(*task) for task in options.tasks])
for axis, task in zip(axes, options.tasks, strict=True):
    for place, score in enumerate(SCORES):
        values = 100 * np.array(found[task]["auroc"][score])
        axis.plot([place] * len(values), values, "o", color=COLOURS[place], alpha=0.6)
        spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
        axis.annotate(
            f"{values.mean():.1f}{spread}", (place, values.max()), (0, 6), textcoords="offset points", ha="center"
        )
    chance(axis)
    axis.set_xticks(range(len(SCORES)), SCORES)
    axis.set(xlim=(-0.6, len(SCORES) - 0.4))
    axis.margins(y=0.25)
axes[0].set_ylabel("AUROC in %")
save(figure, options.picture)
