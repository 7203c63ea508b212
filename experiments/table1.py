"""Table 1 of the paper: information and entropy estimators of the base model at β = 20.

The paper's means over CIFAR-10: NCE with L2 85.5, with L1 86.7; JSD with L2 72.5, with L1 73.9.
"""

import estimators

from normscope.evaluation.experiment import read_options
from normscope.evaluation.figures import COLOURS, chance, panels, save, title

options = read_options(__doc__, "results/estimators.jsonl", "docs/table1.png")
rows = estimators.rows(options)
figure, axes = panels(list(estimators.READINGS.values()))
width = 0.8 / len(estimators.PAIRS)
for axis, reading in zip(axes, estimators.READINGS, strict=True):
    for place, (pair, name) in enumerate(estimators.PAIRS.items()):
        own = [row for row in rows if estimators.reading_of(row) == reading and estimators.pair_of(row) == pair]
        x = [options.tasks.index((row["dataset"], row["normal"])) + (place - 1.5) * width for row in own]
        bars = axis.bar(x, [100 * row["metrics"]["auroc"] for row in own], width, color=COLOURS[place], label=name)
        for bar, row in zip(bars, own, strict=True):
            if row["health"] != "ok":
                bar.set(hatch="///", edgecolor="white")
    chance(axis)
    axis.set_xticks(range(len(options.tasks)), [title(*task).replace(" ", "\n") for task in options.tasks], fontsize=7)
    axis.set(ylim=(0, 100))
axes[0].set_ylabel("AUROC in % (hatched: collapsed)")
axes[0].legend(fontsize=8)
save(figure, options.picture)
