"""What a user gets in the time a user has: each data set at its budget, ours on all classes, rivals on three.

Grey images have five minutes a class, colour images ten, and an encoder that learnt from ImageNet has three. None of
the three is a development class. Magnetic-tile lies in the data root as train/good, test/good and test/<defect>.
"""

import dataclasses
import statistics

from figures import COLOURS, panels, save
from options import Options, read_options

from normscope.benchmark import results
from normscope.benchmark.results import Result
from normscope.datasets.published import data_folder
from normscope.tables.names import DATASET_NAMES

GREY, COLOUR, ENCODER = 300.0, 600.0, 180.0  # seconds
BUDGETS = {"mnist": GREY, "fashion-mnist": GREY, "cifar10": COLOUR}
OURS: dict[str, dict] = {"surprisal": {}}
FROZEN: dict[str, dict] = {"pretrained": {}}
RIVALS: dict[str, dict] = {
    "geotrans": {"width": 16, "references": 300},
    "deep-svdd": {"width": 16},
    "knn": {},
    "random-encoder": {},
}
PART = {"geotrans": 500}  # test images
COMPARED = (0, 3, 6)
SEEDS = 3
EVERY = tuple(range(10))


def measured(
    options: Options, methods: dict[str, dict], dataset: str, classes: tuple, budget: float, seeds: int = 1
) -> list[Result]:
    own = dataclasses.replace(options, tasks=tuple((dataset, normal) for normal in classes), budget=budget, seeds=seeds)
    if dataset == "folder":
        own = dataclasses.replace(own, data_root=data_folder(options.data_root, "magnetic-tile"))
    parts = {} if dataset == "folder" else PART
    return own.results(
        [cell for name, given in methods.items() for cell in own.cells(name, given, test_images=parts.get(name))]
    )


def measure_all(options: Options) -> None:
    """What matters most is measured first."""
    measured(options, FROZEN | OURS | RIVALS, "folder", (0,), ENCODER)
    measured(options, FROZEN, "cifar10", EVERY, ENCODER)
    for methods, classes in ((OURS, EVERY), (RIVALS, COMPARED)):
        for name, budget in BUDGETS.items():
            measured(options, methods, name, classes, budget)
    for name, budget in BUDGETS.items():
        measured(options, OURS, name, COMPARED, budget, SEEDS)
    measured(options, FROZEN | OURS, "folder", (0,), ENCODER, SEEDS)


def panels_of(options: Options) -> dict[str, list[Result]]:
    """All lines of the first seed, those of former settings too."""
    minutes = {name: f"{DATASET_NAMES[name]}, {budget / 60:g} minutes" for name, budget in BUDGETS.items()}
    shown = {
        line_title: [line for line in results.read(options.out) if line["dataset"] == name and is_shown(line)]
        for name, line_title in (minutes | {"folder": "magnetic-tile, 3 minutes"}).items()
    }
    return {name: own for name, own in shown.items() if own}


def is_shown(line: Result) -> bool:
    return line["error"] is None and line["seed"] == 0 and line["method"] in OURS | FROZEN | RIVALS


options = read_options(__doc__, "results/accuracy.jsonl", "docs/accuracy.png")
if options.quick:
    shown = {"digits": options.results([cell for name in ("surprisal", "knn") for cell in options.cells(name, {})])}
else:
    if not options.draw:
        measure_all(options)
    shown = panels_of(options)
figure, axes = panels(list(shown), rows=1 + (len(shown) > 1), height=2.2)
for axis, lines in zip(axes, shown.values(), strict=True):
    every = {
        name: [result for result in lines if result["method"] == name]
        for name in {result["method"] for result in lines}
    }
    same = {
        name: [100 * result["metrics"]["auroc"] for result in own if result["normal"] in COMPARED]
        for name, own in every.items()
    }
    ranked = sorted(same, key=lambda name: statistics.mean(same[name]))
    for place, name in enumerate(ranked):
        ours = name in ("surprisal", "pretrained")
        axis.barh(place, statistics.mean(same[name]), color=COLOURS[0] if ours else "#b9c2cc", height=0.7)
        axis.plot(same[name], [place] * len(same[name]), "|", color="#222222", markersize=6)
        axis.text(100.5, place, f"{statistics.mean(same[name]):.1f}", va="center", fontsize=8)
    axis.set_yticks(range(len(ranked)), ranked)
    axis.set(xlim=(50, 100), xlabel="AUROC in %")
    axis.grid(visible=False, axis="y")
save(figure, options.picture)
