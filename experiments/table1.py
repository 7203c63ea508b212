"""Table 1 of the paper: information and entropy estimators of the base model.

The paper's means over CIFAR-10 at β = 20: NCE with L2 85.5, with L1 86.7; JSD with L2 72.5, with L1 73.9.
"""

import estimators
from figures import COLOURS, chance, panels, save
from options import read_options
from readings import NAMES, draw_untrained, is_of, mean_and_range

from normscope.tables.names import title

options = read_options(__doc__, "results/estimators.jsonl", "docs/table1.png")
results = estimators.results(options)
figure, axes = panels([title(*task) for task in options.tasks])
width = 0.8 / len(estimators.PAIRS)
for axis, task in zip(axes, options.tasks, strict=True):
    draw_untrained(axis, results, task)
    for place, (pair, name) in enumerate(estimators.PAIRS.items()):
        for group, reading in enumerate(estimators.BETAS):
            own = [result for result in results if is_of(result, task, reading) and estimators.pair_of(result) == pair]
            if not own:
                continue
            mean, below, above = mean_and_range(own)
            x, label = group + (place - 1.5) * width, name if group == 0 else None
            bars = axis.bar(x, mean, width, yerr=[[below], [above]], color=COLOURS[place], label=label)
            if any(result["health"] != "ok" for result in own):
                bars[0].set(hatch="///", edgecolor="white")
    chance(axis)
    axis.set_xticks(range(len(estimators.BETAS)), [NAMES[reading] for reading in estimators.BETAS], fontsize=7)
    axis.set(ylim=(0, 100))
axes[0].set_ylabel("AUROC in % (hatched: collapsed)")
axes[0].legend(fontsize=7)
save(figure, options.picture)
