"""Does the norm turn informative with budget? One long run of the paper's base or extension model.

After every few epochs a line is written: AUROC of the paper's score, and beside it of the surprisal (Mahalanobis) of
the same codes. Cut off, the same command goes on from its checkpoint. β = 1 and c1 = √d: with the paper's β = 20 and
c1 = d the codes collapse within the first epoch.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from figures import COLOURS, chance, panels, save, whole_numbers

from normscope import Detector, datasets, inference
from normscope.benchmark import results
from normscope.benchmark.commit import commit
from normscope.benchmark.curve import part
from normscope.benchmark.metrics import auroc
from normscope.intake import read
from normscope.scoring.surprisal import fit_gaussian, gaussian
from normscope.settings import to_json
from normscope.tables.names import title
from normscope.training import checkpoint
from normscope.training.budget import seconds
from normscope.training.observer import Observer

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="digits and a few steps: shows that everything works")
parser.add_argument("--method", choices=["base", "extension"], default="base")
parser.add_argument("--dataset", default="cifar10")
parser.add_argument("--normal", type=int, default=1)
parser.add_argument("--encoder", default="slim")
parser.add_argument("--budget", default="1h")
parser.add_argument("--every", type=int, default=5, help="epochs")
parser.add_argument("--out", type=Path, default=Path("results/long.jsonl"))
parser.add_argument("--picture", type=Path, default=Path("docs/long_run.png"))
parser.add_argument("--data-root", type=Path)
parser.add_argument("--threads", type=int, default=1)
given = parser.parse_args()
if given.quick:
    given.dataset, given.normal, given.encoder, given.every = "digits", 0, "tiny", 2
torch.set_num_threads(given.threads)
given.out.parent.mkdir(parents=True, exist_ok=True)

task = datasets.load(given.dataset, given.data_root).task(given.normal)
images, chosen = part(task.test_images, 2000)
detector = Detector(
    given.method,
    settings={"preset": "paper", "encoder": given.encoder, "beta": 1.0, "clip_scale": "root"},
    budget=None if given.quick else seconds(given.budget),
    epochs=4 if given.quick else None,
    false_alarm_rate=None,
    device="cpu",
)
run = {
    "dataset": given.dataset,
    "method": given.method,
    "settings": to_json(detector.options.settings),
    "normal": given.normal,
    "seed": 0,
    "budget": detector.options.budget,
    "test_images": len(images),
    "threads": given.threads,
    "commit": commit(),
    "error": None,
}
size = 28 if given.dataset in ("digits", "mnist", "fashion-mnist") else 32
train, test = read(task.train_images, size), read(images, size)


class Lines(Observer):
    """A line every so many epochs: scores first, then labels; neither is seen by the training."""

    every, sums, count = given.every, {}, 0

    def step(self, progress) -> None:
        self.sums = {name: self.sums.get(name, 0.0) + value for name, value in progress.record.items()}
        self.count += 1

    def epoch(self, progress, method, reference) -> None:
        tested = inference.encoded(method, test, torch.device("cpu"))
        scores, codes = inference.scores(method, reference, tested), inference.codes(method, tested)
        trained = inference.codes(method, inference.encoded(method, train, torch.device("cpu")))
        surprisals = gaussian(torch.from_numpy(codes), fit_gaussian(torch.from_numpy(trained))).numpy()
        lengths, is_anomaly = np.linalg.norm(codes, axis=1), task.test_labels.look()[chosen]
        line = run | {
            "epoch": progress.epoch,
            "step": progress.step,
            "seconds": round(progress.seconds, 1),
            "metrics": {
                "auroc": round(auroc(scores, is_anomaly), 6),
                "auroc_surprisal": round(auroc(surprisals, is_anomaly), 6),
            },
            "norm_normal": round(float(lengths[~is_anomaly].mean()), 5),
            "norm_anomalous": round(float(lengths[is_anomaly].mean()), 5),
            **{name: round(total / self.count, 5) for name, total in self.sums.items()},
        }
        self.sums, self.count = {}, 0
        results.append(given.out, line)


name = f"{given.method}-{given.dataset}-{given.normal}"
kept = given.out.with_name(f"{given.out.stem}-{name}.checkpoint")
detector.fit(
    task.train_images,
    allow_collapse=True,
    checkpoint=kept,
    resume=True,
    observer=Lines(),
)
checkpoint.remove(kept)

curves: dict[str, dict[int, dict]] = {}
for row in results.read(given.out):  # a run that was cut off may have looked at an epoch twice: the last one counts
    curves.setdefault(f"{row['method']}, {title(row['dataset'], row['normal'])}", {})[row["epoch"]] = row
figure, axes = panels(list(curves))
for axis, curve in zip(axes, curves.values(), strict=True):
    for metric, colour, label in (
        ("auroc", COLOURS[0], "the paper's score"),
        ("auroc_surprisal", COLOURS[1], "surprisal of the same codes"),
    ):
        axis.plot(
            curve.keys(),
            [100 * row["metrics"][metric] for row in curve.values()],
            "o-",
            color=colour,
            markersize=3,
            label=label,
        )
    chance(axis)
    whole_numbers(axis)
    axis.set(ylim=(0, 100), xlabel="epoch")
axes[0].set_ylabel("AUROC in %")
axes[0].legend(fontsize=8)
save(figure, given.picture)
