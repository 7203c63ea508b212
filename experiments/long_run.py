"""Does the norm turn informative with time? The base model for many epochs, in three readings.

The literal reading has codes of the paper's 1,024 entries on a small encoder of its shape. A line is written of the
untrained network and after every few epochs: AUROC of the norm, of its likelihood-ratio form and of the surprisal of
the same codes; mean norms of each class; Spearman correlation of the norm with the SD of an image's pixels; the share
of zeros among the codes' entries; losses. Cut off, the same command goes on from its checkpoint.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from figures import COLOURS, chance, panels, save, whole_numbers
from scipy.stats import spearmanr

from normscope import Detector, datasets, inference
from normscope.benchmark import results
from normscope.benchmark.commit import commit
from normscope.benchmark.curve import part
from normscope.benchmark.metrics import auroc
from normscope.intake import read
from normscope.scoring.norm import norm_ratio
from normscope.scoring.surprisal import fit_gaussian, gaussian
from normscope.settings import to_json
from normscope.tables.names import title
from normscope.training import checkpoint
from normscope.training.observer import Observer
from normscope.views.shifts import rotations

READINGS = {
    "three terms": {"score": "ori"},
    "two terms": {"score": "ori", "gamma": 0.0},
    "literal": {"preset": "paper", "encoder": "tiny", "code": 1024},
}
TASKS = (("fashion-mnist", 8), ("cifar10", 1), ("mnist", 3))
CPU = torch.device("cpu")

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="digits and a few steps: shows that everything works")
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--every", type=int, default=2, help="epochs")
parser.add_argument("--images", type=int, help="of the training images, so many at random; all unless given")
parser.add_argument("--readings", nargs="+", choices=READINGS, default=list(READINGS))
parser.add_argument("--datasets", nargs="+", help="of the three tasks, those of these data sets")
parser.add_argument("--out", type=Path, default=Path("results/long.jsonl"))
parser.add_argument("--picture", type=Path, default=Path("docs/long_run.png"))
parser.add_argument("--data-root", type=Path)
parser.add_argument("--threads", type=int, default=1)
given = parser.parse_args()
if given.quick:
    TASKS, given.epochs = (("digits", 0),), 4
torch.set_num_threads(given.threads)
given.out.parent.mkdir(parents=True, exist_ok=True)


class Lines(Observer):
    """A line every so many epochs: scores first, then labels; neither is seen by the training."""

    every = given.every

    def __init__(self, key: dict, settings: dict) -> None:
        data = datasets.load(key["dataset"], given.data_root)
        images, chosen = part(data.test_images, 2000)
        self.normal, self.labels = key["normal"], data.test_labels[chosen]
        self.train_images, _ = part(data.task(self.normal).train_images, given.images)
        side = 28 if data.test_images.shape[1] <= 28 else 32
        self.train, self.test = read(self.train_images, (side, side)), read(images, (side, side))
        self.contrast = images.reshape(len(images), -1).std(1)
        self.sums, self.count = {}, 0
        self.run = key | {
            "settings": settings,
            "budget": None,
            "test_images": len(images),
            "threads": given.threads,
            "commit": commit(),
            "error": None,
        }

    def step(self, progress) -> None:
        self.sums = {name: self.sums.get(name, 0.0) + value for name, value in progress.record.items()}
        self.count += 1

    def epoch(self, progress, method, reference) -> None:
        losses = {name: round(total / self.count, 5) for name, total in self.sums.items()}
        self.sums, self.count = {}, 0
        place = {"epoch": progress.epoch, "step": progress.step, "seconds": round(progress.seconds, 1)}
        self.write(method, place | losses)

    def write(self, method, place: dict) -> None:
        tested = inference.encoded(method, self.test, CPU)
        codes = inference.codes(method, tested)
        turned = inference.concatenated(lambda x: turned_norms(method, x), method, tested)
        trained = inference.codes(method, inference.encoded(method, self.train, CPU))
        scores = {
            "auroc": inference.scores(method, {}, tested),
            "auroc_ratio": norm_ratio(torch.from_numpy(turned)).numpy(),
            "auroc_surprisal": gaussian(torch.from_numpy(codes), fit_gaussian(torch.from_numpy(trained))).numpy(),
        }
        classes = range(int(self.labels.max()) + 1)
        norms = [turned[self.labels == label, 0].mean() for label in classes]
        line = self.run | {
            **place,
            "metrics": {name: round(auroc(score, self.labels != self.normal), 6) for name, score in scores.items()},
            "norms": [round(float(value), 5) for value in norms],
            "norm_deviation": round(float(turned[self.labels == self.normal, 0].std()), 5),
            "contrast_correlation": round(float(spearmanr(turned[:, 0], self.contrast).statistic), 5),
            "zeros": round(float((codes[self.labels == self.normal] == 0).mean()), 5),
        }
        results.append(given.out, line)


def turned_norms(method, images):
    """Norms of the codes of the image and of its rotations, [n, 4]."""
    return torch.stack([method.code(x).norm(dim=1) for x in rotations(images)], 1)


def detector(reading: str, epochs: int) -> Detector:
    return Detector("base", settings=READINGS[reading], epochs=epochs, budget=None, false_alarm_rate=None, device="cpu")


def of_this_length() -> list[dict]:
    """Lines of as many epochs with as many training images; older ones do not say that these were all."""
    every = [{"train_images": None, **line} for line in results.read(given.out)]
    return [line for line in every if (line["epochs"], line["train_images"]) == (given.epochs, given.images)]


def measure(reading: str, dataset: str, normal: int) -> None:
    """What is missing of a run."""
    key = {"dataset": dataset, "method": "base", "reading": reading, "normal": normal, "seed": 0}
    key |= {"epochs": given.epochs, "train_images": given.images}
    done = [line for line in of_this_length() if key.items() <= line.items()]
    if done and done[-1]["epoch"] >= given.epochs:
        return
    trained = detector(reading, given.epochs)
    lines = Lines(key, to_json(trained.options.settings))
    if not done:
        untrained = detector(reading, 0).fit(lines.train_images)
        lines.write(untrained.model.method, {"epoch": 0, "step": 0, "seconds": 0.0})
    run = "-".join(map(str, (reading.split()[0], dataset, normal, given.epochs, given.images or "all")))
    kept = given.out.with_name(f"{given.out.stem}-{run}.checkpoint")
    trained.fit(lines.train_images, allow_collapse=True, checkpoint=kept, resume=True, observer=lines)
    checkpoint.remove(kept)


for task in TASKS:
    for reading in given.readings:
        if not given.datasets or task[0] in given.datasets:
            measure(reading, *task)

curves: dict[tuple, dict[int, dict]] = {}
for row in of_this_length():  # a run that was cut off may have written an epoch twice: the last one counts
    curves.setdefault(((row["dataset"], row["normal"]), row["reading"]), {})[row["epoch"]] = row
names = [title(*task) for task in TASKS]
figure, axes = panels(
    [*(f"{name}: AUROC of the norm" for name in names), *(f"{name}: ‖z‖ normal / others" for name in names)], 2
)
for accuracy, length, task in zip(axes, axes[len(names) :], TASKS, strict=False):
    for reading, colour in zip(READINGS, COLOURS, strict=False):
        rows = list(curves.get((task, reading), {}).values())
        epochs = [row["epoch"] for row in rows]
        auroc_of_norm = [100 * row["metrics"]["auroc"] for row in rows]
        accuracy.plot(epochs, auroc_of_norm, "o-", color=colour, markersize=3, label=reading)
        ratios = [row["norms"][task[1]] / np.mean(np.delete(row["norms"], task[1])) for row in rows]
        length.plot(epochs, ratios, "o-", color=colour, markersize=3)
    chance(accuracy)
    whole_numbers(accuracy)
    whole_numbers(length)
    length.axhline(1, color="#999999", linewidth=0.8, linestyle=(0, (4, 3)))
    accuracy.set(ylim=(0, 100))
    length.set(xlabel="epoch")
axes[0].set_ylabel("AUROC in %")
axes[0].legend(fontsize=8)
save(figure, given.picture)
