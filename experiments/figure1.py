"""Figure 1 of the paper: AUROC of the base model against β.

The paper averages over all classes of CIFAR-10 and CIFAR-100 and finds a plateau from β = 0.5 to 40, highest at 20.
"""

import beta
from figures import COLOURS, chance, panels, save
from options import read_options

from normscope.tables.names import title

options = read_options(__doc__, "results/beta.jsonl", "docs/figure1.png")
results = beta.results(options)
figure, axes = panels([title(*task) for task in options.tasks])
for axis, task in zip(axes, options.tasks, strict=True):
    for colour, (reading, name) in zip(COLOURS, beta.READINGS.items(), strict=False):
        own = beta.of(results, task, reading)
        x, y = range(len(own)), [100 * result["metrics"]["auroc"] for result in own]
        axis.plot(x, y, "-", color=colour, label=name)
        sound = [result["health"] == "ok" for result in own]
        for kept, face in ((True, colour), (False, "white")):
            places = [i for i, ok in enumerate(sound) if ok == kept]
            axis.plot([x[i] for i in places], [y[i] for i in places], "o", color=colour, markerfacecolor=face)
    chance(axis)
    axis.set(xlabel="β (hollow: collapsed)", ylim=(0, 100))
    axis.set_xticks(range(len(own)), [f"{result['settings']['beta']:g}" for result in own])
axes[0].set_ylabel("AUROC in %")
axes[0].legend(fontsize=8)
save(figure, options.picture)
