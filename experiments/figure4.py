"""Figure 4 of the paper: NCE against JSD while the base model trains, with the L1 entropy.

The paper, on CIFAR-10 car: JSD's AUROC and loss vary far more from epoch to epoch, and its AUROC stays lower.
"""

import math

import estimators

from normscope.evaluation.experiment import read_options
from normscope.evaluation.figures import COLOURS, chance, panels, save, title, whole_numbers

options = read_options(__doc__, "results/estimators.jsonl", "docs/figure4.png")
rows = [row for row in estimators.rows(options) if row["settings"]["entropy"] == "laplace"]
names = [title(*task) for task in options.tasks]
figure, axes = panels([*names, *(f"{name}: information loss" for name in names)], rows=2)
for accuracy, loss, task in zip(axes, axes[len(names) :], options.tasks, strict=False):
    for row in rows:
        if (row["dataset"], row["normal"]) != task:
            continue
        nce = row["settings"]["information"] == "infonce"
        candidates = 2 * min(row["settings"]["batch_size"], row["protocol"]["trained_on"]) - 1
        worst = math.log(candidates) if nce else 2 * math.log(2)  # the loss of a critic that knows nothing
        style = "-" if estimators.reading_of(row)[1] == "root" else ":"
        how = {"color": COLOURS[1 if nce else 0], "linestyle": style, "marker": "o", "markersize": 3}
        label = f"{'NCE' if nce else 'JSD'}, {estimators.READINGS[estimators.reading_of(row)]}"
        epochs = [point["epoch"] for point in row["curve"]]
        accuracy.plot(epochs, [100 * point["auroc"] for point in row["curve"]], label=label, **how)
        loss.plot(epochs, [worst - point["information"] for point in row["curve"]], **how)
    chance(accuracy)
    whole_numbers(accuracy)
    whole_numbers(loss)
    accuracy.set(ylim=(0, 100))
    loss.set(xlabel="epoch", ylim=(0, None))
axes[0].set_ylabel("AUROC in %")
axes[0].legend(fontsize=6)
save(figure, options.picture)
