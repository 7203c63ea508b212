"""Figure 3 of the paper: what the losses and the codes' lengths converge to, against β.

The paper: as β grows the information loss rises and the entropy falls; both lengths fall, that of anomalies further,
and the gap between them is where AUROC is best.
"""

import math

import beta
from figures import COLOURS, panels, save
from options import read_options

from normscope.tables.names import title

options = read_options(__doc__, "results/beta.jsonl", "docs/figure3.png")
reading = "root"  # with the paper's own, codes say nothing from β = 0.5 on, and there is nothing to see
results = beta.results(options)
names = [title(*task) for task in options.tasks]
figure, axes = panels([*(f"{name}: losses" for name in names), *(f"{name}: ‖z‖" for name in names)], rows=2)
for losses, lengths, task in zip(axes, axes[len(names) :], options.tasks, strict=False):
    own = [result for result in beta.of(results, task, reading) if result["curve"]]
    x, last = range(len(own)), [result["curve"][-1] for result in own]
    candidates = [2 * min(result["settings"]["batch_size"], result["protocol"]["trained_on"]) - 1 for result in own]
    nce = [math.log(count) - point["information"] for count, point in zip(candidates, last, strict=True)]
    losses.plot(x, nce, "o-.", color=COLOURS[1], markersize=3, label="information, NCE")
    losses.plot(x, [p["beta"] * p["entropy"] for p in last], "o-.", color=COLOURS[3], markersize=3, label="β · entropy")
    accuracy = losses.twinx()
    accuracy.plot(x, [100 * result["metrics"]["auroc"] for result in own], "o-", color=COLOURS[0], markersize=3)
    accuracy.set_ylim(0, 100)
    accuracy.tick_params(labelsize=8)
    accuracy.set_ylabel("AUROC in %", color=COLOURS[0], fontsize=8)
    lengths.plot(x, [p["norm_normal"] for p in last], "o-", color=COLOURS[2], markersize=3, label="normal")
    lengths.plot(x, [p["norm_anomalous"] for p in last], "o-", color=COLOURS[1], markersize=3, label="anomalous")
    lengths.set_yscale("log")
    for axis in (losses, lengths):
        axis.set_xticks(x, [f"{result['settings']['beta']:g}" for result in own])
        axis.set_xlabel("β")
axes[0].legend(fontsize=8)
axes[len(names)].legend(fontsize=8)
save(figure, options.picture)
