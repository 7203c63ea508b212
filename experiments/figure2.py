"""Figure 2 of the paper: AUROC of the base model while it trains, for every β.

The paper shows CIFAR-10 car every 5 of 400 epochs: for β from 0.5 to 30 the last epoch is about the best. Here a point
is an epoch of one minute in the literal reading, and one of five epochs in the complete one.
"""

import beta
from figures import chance, panels, save, whole_numbers
from options import read_options
from readings import COMPLETE, LITERAL, NAMES

from normscope.tables.names import title

options = read_options(__doc__, "results/beta.jsonl", "docs/figure2.png")
results, task = beta.followed(options), options.tasks[-1]
figure, axes = panels([f"{title(*task)}, {NAMES[reading]}" for reading in (LITERAL, COMPLETE)])
for axis, reading in zip(axes, (LITERAL, COMPLETE), strict=True):
    own = beta.of(results, task, reading)
    for place, (value, (result,)) in enumerate(own.items()):
        epochs, values = [p["epoch"] for p in result["curve"]], [100 * p["auroc"] for p in result["curve"]]
        colour = (0.9 - 0.8 * place / len(own), 0.35, 0.1 + 0.8 * place / len(own))  # red for small β, blue for large
        axis.plot(epochs, values, "o-", color=colour, markersize=3, label=f"{value:g}")
    chance(axis)
    whole_numbers(axis)
    axis.set(xlabel="epoch", ylim=(0, 100))
    axis.legend(title="β", fontsize=7, ncols=3)
axes[0].set_ylabel("AUROC in %")
save(figure, options.picture)
