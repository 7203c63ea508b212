"""Figure 4 of the paper: NCE against JSD while the base model trains, with the L1 entropy.

The paper, on CIFAR-10 car: JSD's AUROC and loss vary far more from epoch to epoch, and its AUROC stays lower.
"""

import math

import estimators
from figures import COLOURS, chance, panels, save, whole_numbers
from options import read_options

from normscope.tables.names import title

options = read_options(__doc__, "results/estimators.jsonl", "docs/figure4.png")
results = [result for result in estimators.results(options) if result["settings"]["entropy"] == "laplace"]
names = [title(*task) for task in options.tasks]
figure, axes = panels([*names, *(f"{name}: information loss" for name in names)], rows=2)
for accuracy, loss, task in zip(axes, axes[len(names) :], options.tasks, strict=False):
    for result in results:
        if (result["dataset"], result["normal"]) != task:
            continue
        nce = result["settings"]["information"] == "infonce"
        candidates = 2 * min(result["settings"]["batch_size"], result["protocol"]["trained_on"]) - 1
        worst = math.log(candidates) if nce else 2 * math.log(2)  # the loss of a critic that knows nothing
        style = "-" if estimators.reading_of(result)[1] == "root" else ":"
        how = {"color": COLOURS[1 if nce else 0], "linestyle": style, "marker": "o", "markersize": 3}
        label = f"{'NCE' if nce else 'JSD'}, {estimators.READINGS[estimators.reading_of(result)]}"
        epochs = [point["epoch"] for point in result["curve"]]
        accuracy.plot(epochs, [100 * point["auroc"] for point in result["curve"]], label=label, **how)
        loss.plot(epochs, [worst - point["information"] for point in result["curve"]], **how)
    chance(accuracy)
    whole_numbers(accuracy)
    whole_numbers(loss)
    accuracy.set(ylim=(0, 100))
    loss.set(xlabel="epoch", ylim=(0, None))
axes[0].set_ylabel("AUROC in %")
axes[0].legend(fontsize=6)
save(figure, options.picture)
