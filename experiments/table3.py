"""Table 3 of the paper: every method on every class of every data set that lies under the data root.

What is made for a GPU is made narrower here, and otherwise keeps its published settings. A score that takes many passes
is taken of a random part of the test images, the same for all classes. `base` and `extension` are here in the paper's
literal reading; their default reading is drawn beside them from readings.jsonl, a file of `normscope bench`.
"""

import statistics

from figures import COLOURS, panels, save
from options import read_options

from normscope import datasets
from normscope.benchmark.results import Result, read
from normscope.errors import DatasetError
from normscope.methods import method_names
from normscope.tables.names import DATASET_NAMES

SMALL = {
    "base": {"preset": "paper", "encoder": "tiny"},
    "extension": {"preset": "paper", "encoder": "tiny"},
    "deep-svdd": {"width": 16},
    "deep-sad": {"width": 16},
    "geotrans": {"width": 16, "references": 300},
    "autoencoder": {"width": 16},
    "ocgan": {"width": 16, "batch_size": 64},
    **{name: {"width": 16} for name in ("arnet", "dagmm", "dsebm", "ganomaly")},
}
PART = {"geotrans": 500, "arnet": 2000}  # test images
LEFT_OUT = {
    "pretrained",  # learnt from ImageNet: no rival to those that learn from the normal images alone
    "anogan",  # a search of 100 steps, all that a minute's scoring allows, hardly leaves the code it begins at
    "adgan",  # makes a small part of its 10,000 steps in a minute
}
TASKS = ("mnist", "fashion-mnist", "cifar10", "cifar100")


def present(name: str) -> bool:
    try:
        return bool(datasets.load(name))
    except DatasetError:
        return False


every = [
    f"{name}:{','.join(str(n) for n in range(20 if name == 'cifar100' else 10))}" for name in TASKS if present(name)
]
options = read_options(__doc__, "results/table3.jsonl", "docs/table3.png", tasks=every)
methods = ("surprisal", "knn") if options.quick else [name for name in method_names() if name not in LEFT_OUT]
cells = [
    cell for method in methods for cell in options.cells(method, SMALL.get(method, {}), test_images=PART.get(method))
]
results = options.results(cells) + [
    result for result in read(options.out.with_name("readings.jsonl")) if result["settings"]["score"] == "ratio"
]


def row(result: Result) -> str:
    return result["method"] + (", literal" if result["settings"].get("preset") == "paper" else "")


rows = list(dict.fromkeys(map(row, results)))
names = list(dict.fromkeys(dataset for dataset, _ in options.tasks))
figure, axes = panels([DATASET_NAMES.get(name, name) for name in names], height=1.5 + 0.3 * len(rows))
for axis, name in zip(axes, names, strict=True):
    own: dict[str, list[float]] = {}
    for result in results:
        if result["dataset"] == name:
            own.setdefault(row(result), []).append(100 * result["metrics"]["auroc"])
    ranked = sorted(own, key=lambda one: statistics.mean(own[one]))
    for place, one in enumerate(ranked):
        axis.plot(own[one], [place] * len(own[one]), "o", color=COLOURS[0], alpha=0.35, markersize=4)
        axis.plot(statistics.mean(own[one]), place, "D", color=COLOURS[1])
    axis.set_yticks(range(len(ranked)), ranked)
    axis.axvline(50, color="#999999", linewidth=0.8, linestyle=(0, (4, 3)))
    axis.set(xlim=(0, 101), xlabel="AUROC in % of classes and their mean")
save(figure, options.picture)
