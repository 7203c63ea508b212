"""Figure 4 of the paper: NCE against JSD while the base model trains, with the L1 entropy.

The paper, on CIFAR-10 car: JSD's AUROC and loss vary far more from epoch to epoch, and its AUROC stays lower.
"""

import math

import estimators
from figures import COLOURS, chance, panels, save, whole_numbers
from options import read_options
from readings import COMPLETE, NAMES, is_of

from normscope.tables.names import title

options = read_options(__doc__, "results/estimators.jsonl", "docs/figure4.png")
results, task = estimators.followed(options), options.tasks[-1]
figure, (accuracy, loss) = panels([title(*task), f"{title(*task)}: information loss"], height=3.4)
for result in results:
    nce = result["settings"]["information"] == "infonce"
    candidates = 2 * min(result["settings"]["batch_size"], result["protocol"]["trained_on"]) - 1
    worst = math.log(candidates) if nce else 2 * math.log(2)  # the loss of a critic that knows nothing
    reading = next(reading for reading in estimators.BETAS if is_of(result, task, reading))
    style = "-" if reading == COMPLETE else ":"
    how = {"color": COLOURS[1 if nce else 0], "linestyle": style, "marker": "o", "markersize": 3}
    epochs = [point["epoch"] for point in result["curve"]]
    label = f"{'NCE' if nce else 'JSD'}, {NAMES[reading]}"
    accuracy.plot(epochs, [100 * point["auroc"] for point in result["curve"]], label=label, **how)
    loss.plot(epochs, [worst - point["information"] for point in result["curve"]], **how)
chance(accuracy)
for axis in (accuracy, loss):
    whole_numbers(axis)
    axis.set_xlabel("epoch")
accuracy.set(ylim=(0, 100), ylabel="AUROC in %")
loss.set(ylim=(0, None))
accuracy.legend(fontsize=7)
save(figure, options.picture)
