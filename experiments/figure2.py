"""Figure 2 of the paper: AUROC of the base model while it trains, for every β.

The paper shows CIFAR-10 car every 5 of 400 epochs: for β from 0.5 to 30 the last epoch is about the best.
"""

import beta
from figures import chance, panels, save, whole_numbers
from options import read_options

from normscope.tables.names import title

options = read_options(__doc__, "results/beta.jsonl", "docs/figure2.png")
results = beta.results(options)
shown = [(task, reading) for reading in beta.READINGS for task in options.tasks]
figure, axes = panels([f"{title(*task)}, {beta.READINGS[reading]}" for task, reading in shown], rows=2)
for axis, (task, reading) in zip(axes, shown, strict=True):
    own = beta.of(results, task, reading)
    for place, result in enumerate(own):
        epochs, values = [p["epoch"] for p in result["curve"]], [100 * p["auroc"] for p in result["curve"]]
        colour = (0.9 - 0.8 * place / len(own), 0.35, 0.1 + 0.8 * place / len(own))  # red for small β, blue for large
        axis.plot(epochs, values, "o-", color=colour, markersize=3, label=f"{result['settings']['beta']:g}")
    chance(axis)
    whole_numbers(axis)
    axis.set(xlabel="epoch", ylim=(0, 100))
axes[0].set_ylabel("AUROC in %")
axes[0].legend(title="β", fontsize=7, ncols=3)
save(figure, options.picture)
