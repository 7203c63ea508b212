"""What a user gets in the time a user has: each data set at its budget, ours on all classes, rivals on three.

Grey images have five minutes a class, colour images ten, and an encoder that learnt from ImageNet has three. None of
the three is a development class. Magnetic-tile lies in the data root as train/good, test/good and test/<defect>.
"""

import dataclasses
import statistics

from normscope.datasets.published import data_folder
from normscope.evaluation.experiment import Options, read_options
from normscope.evaluation.figures import COLOURS, PROPER, panels, save
from normscope.evaluation.grid import Row

GREY, COLOUR, ENCODER = 300.0, 600.0, 180.0  # seconds
RIVALS = {
    "geotrans": {"width": 16, "references": 300},
    "deep-svdd": {"width": 16},
    "knn": {},
    "random-encoder": {},
}
PART = {"geotrans": 500}  # test images
COMPARED = (0, 3, 6)
SEEDS = 3
EVERY = tuple(range(10))


def measured(options: Options, methods: dict, dataset: str, classes: tuple, budget: float, seeds: int = 1) -> list[Row]:
    own = dataclasses.replace(options, tasks=tuple((dataset, normal) for normal in classes), budget=budget, seeds=seeds)
    if dataset == "folder":
        own = dataclasses.replace(own, data_root=data_folder(options.data_root, "magnetic-tile"))
    parts = {} if dataset == "folder" else PART
    return own.rows(
        [cell for name, given in methods.items() for cell in own.cells(name, given, test_images=parts.get(name))]
    )


def all_rows(options: Options) -> dict[str, list[Row]]:
    """Those of each panel; what matters most is measured first."""
    ours, frozen, budgets = (
        {"surprisal": {}},
        {"pretrained": {}},
        {"mnist": GREY, "fashion-mnist": GREY, "cifar10": COLOUR},
    )
    names = {name: PROPER[name] for name in budgets}
    rows = {title: [] for title in (*names.values(), "magnetic-tile")}
    rows["magnetic-tile"] += measured(options, frozen | ours | RIVALS, "folder", (0,), ENCODER)
    rows["CIFAR-10"] += measured(options, frozen, "cifar10", EVERY, ENCODER)
    for name, budget in budgets.items():
        rows[names[name]] += measured(options, ours, name, EVERY, budget)
    for name, budget in budgets.items():
        rows[names[name]] += measured(options, RIVALS, name, COMPARED, budget)
    for name, budget in budgets.items():
        measured(options, ours, name, COMPARED, budget, SEEDS)
    return rows


options = read_options(__doc__, "results/accuracy.jsonl", "docs/accuracy.png")
if options.quick:
    shown = {"digits": options.rows([cell for name in ("surprisal", "knn") for cell in options.cells(name, {})])}
else:
    shown = all_rows(options)
figure, axes = panels(list(shown), height=2.6)
for axis, rows in zip(axes, shown.values(), strict=True):
    every = {name: [row for row in rows if row["method"] == name] for name in {row["method"] for row in rows}}
    same = {
        name: [100 * row["metrics"]["auroc"] for row in own if row["normal"] in COMPARED] for name, own in every.items()
    }
    ranked = sorted(same, key=lambda name: statistics.mean(same[name]))
    for place, name in enumerate(ranked):
        ours = name in ("surprisal", "pretrained")
        axis.barh(place, statistics.mean(same[name]), color=COLOURS[0] if ours else "#b9c2cc", height=0.7)
        axis.plot(same[name], [place] * len(same[name]), "|", color="#222222", markersize=6)
        axis.text(100.5, place, f"{statistics.mean(same[name]):.1f}", va="center", fontsize=8)
    axis.set_yticks(range(len(ranked)), ranked)
    axis.set(xlim=(40, 100), xlabel="AUROC in %")
    axis.grid(visible=False, axis="y")
save(figure, options.picture)
