"""Figure 1 of the paper: AUROC of the base model against β.

The paper averages over all classes of CIFAR-10 and CIFAR-100 and finds a plateau from β = 0.5 to 40, highest at 20.
"""

import beta
from figures import COLOURS, chance, panels, save
from options import read_options
from readings import NAMES, draw_untrained, mean_and_range

from normscope.tables.names import title

options = read_options(__doc__, "results/beta.jsonl", "docs/figure1.png")
results = beta.results(options)
every = sorted({result["settings"]["beta"] for result in results})
figure, axes = panels([title(*task) for task in options.tasks])
for axis, task in zip(axes, options.tasks, strict=True):
    draw_untrained(axis, results, task)
    for colour, reading in zip(COLOURS, beta.BETAS, strict=False):
        own = beta.of(results, task, reading)
        if not own:
            continue
        x = [every.index(value) for value in own]
        mean, *errors = zip(*(mean_and_range(seeds) for seeds in own.values()), strict=True)
        axis.errorbar(x, mean, errors, color=colour, capsize=2, label=NAMES[reading])
        for place, y, seeds in zip(x, mean, own.values(), strict=True):
            face = colour if all(result["health"] == "ok" for result in seeds) else "white"
            axis.plot(place, y, "o", color=colour, markerfacecolor=face, markersize=4)
    chance(axis)
    axis.set(xlabel="β (hollow: collapsed)", ylim=(0, 100))
    axis.set_xticks(range(len(every)), [f"{value:g}" for value in every])
axes[0].set_ylabel("AUROC in %")
axes[0].legend(fontsize=7)
save(figure, options.picture)
