"""Table 3 of the paper: every method on every class of every data set that lies under the data root.

What is made for a GPU is made narrower here, and otherwise keeps its published settings. A score that is an
optimisation for each image, or 72 passes, is taken of a random part of the test images, the same for all classes.
"""

import statistics

from figures import COLOURS, panels, save
from options import read_options

from normscope import datasets
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
    "anogan": {"width": 16, "search_steps": 100},
    "ocgan": {"width": 16, "batch_size": 64},
    **{name: {"width": 16} for name in ("arnet", "dagmm", "dsebm", "ganomaly", "adgan")},
}
PART = {"adgan": 500, "anogan": 500, "geotrans": 500, "arnet": 2000}  # test images
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
# An encoder that learnt from ImageNet is no rival to those that learn from the normal images alone.
methods = ("surprisal", "knn") if options.quick else [name for name in method_names() if name != "pretrained"]
cells = [
    cell for method in methods for cell in options.cells(method, SMALL.get(method, {}), test_images=PART.get(method))
]
results = options.results(cells)
names = list(dict.fromkeys(dataset for dataset, _ in options.tasks))
figure, axes = panels([DATASET_NAMES.get(name, name) for name in names], height=1.5 + 0.3 * len(methods))
for axis, name in zip(axes, names, strict=True):
    own = {
        method: [
            100 * result["metrics"]["auroc"]
            for result in results
            if (result["dataset"], result["method"]) == (name, method)
        ]
        for method in methods
    }
    ranked = sorted((method for method in methods if own[method]), key=lambda method: statistics.mean(own[method]))
    for place, method in enumerate(ranked):
        axis.plot(own[method], [place] * len(own[method]), "o", color=COLOURS[0], alpha=0.35, markersize=4)
        axis.plot(statistics.mean(own[method]), place, "D", color=COLOURS[1])
    axis.set_yticks(range(len(ranked)), ranked)
    axis.axvline(50, color="#999999", linewidth=0.8, linestyle=(0, (4, 3)))
    axis.set(xlim=(0, 101), xlabel="AUROC in % of classes and their mean")
save(figure, options.picture)
