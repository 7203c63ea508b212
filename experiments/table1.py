"""Table 1 of the paper: information and entropy estimators of the base model at β = 20.

The paper's means over CIFAR-10: NCE with L2 85.5, with L1 86.7; JSD with L2 72.5, with L1 73.9.
"""

import estimators
from figures import COLOURS, chance, panels, save
from options import read_options

from normscope.tables.names import title

options = read_options(__doc__, "results/estimators.jsonl", "docs/table1.png")
results = estimators.results(options)
figure, axes = panels(list(estimators.READINGS.values()))
width = 0.8 / len(estimators.PAIRS)
for axis, reading in zip(axes, estimators.READINGS, strict=True):
    for place, (pair, name) in enumerate(estimators.PAIRS.items()):
        own = [
            result
            for result in results
            if estimators.reading_of(result) == reading and estimators.pair_of(result) == pair
        ]
        x = [options.tasks.index((result["dataset"], result["normal"])) + (place - 1.5) * width for result in own]
        bars = axis.bar(
            x, [100 * result["metrics"]["auroc"] for result in own], width, color=COLOURS[place], label=name
        )
        for bar, result in zip(bars, own, strict=True):
            if result["health"] != "ok":
                bar.set(hatch="///", edgecolor="white")
    chance(axis)
    axis.set_xticks(range(len(options.tasks)), [title(*task).replace(" ", "\n") for task in options.tasks], fontsize=7)
    axis.set(ylim=(0, 100))
axes[0].set_ylabel("AUROC in % (hatched: collapsed)")
axes[0].legend(fontsize=8)
save(figure, options.picture)
