"""Figure 3 of the paper: what the losses and the codes' lengths converge to, against β.

The paper: as β grows the information loss rises and the entropy falls; both lengths fall, that of anomalies further,
and the gap between them is where AUROC is best.
"""

import math
import statistics

import beta
from figures import COLOURS, panels, save
from options import read_options
from readings import COMPLETE, TWO_TERMS

from normscope.tables.names import title

options = read_options(__doc__, "results/beta.jsonl", "docs/figure3.png")
results = beta.results(options)
names = [title(*task) for task in options.tasks]
figure, axes = panels([*(f"{name}: losses" for name in names), *(f"{name}: ‖z‖" for name in names)], rows=2)


def at_the_end(seeds, of) -> float:
    """The mean over seeds of what is said of a curve's last point."""
    return statistics.mean(of(result["curve"][-1]) for result in seeds)


for losses, lengths, task in zip(axes, axes[len(names) :], options.tasks, strict=False):
    every = sorted({value for reading in (COMPLETE, TWO_TERMS) for value in beta.of(results, task, reading)})
    for reading, style in ((COMPLETE, "o-"), (TWO_TERMS, "o:")):
        own = beta.of(results, task, reading)
        if not own:
            continue
        x, seeds, terms = [every.index(value) for value in own], list(own.values()), 3 if reading == COMPLETE else 2
        first = seeds[0][0]
        worst = math.log(2 * min(first["settings"]["batch_size"], first["protocol"]["trained_on"]) - 1)
        nce = [worst - at_the_end(some, lambda point: point["information"]) for some in seeds]
        spread = [at_the_end(some, lambda point: point["beta"] * point["entropy"]) for some in seeds]
        losses.plot(x, nce, style, color=COLOURS[1], markersize=3, label=f"information, NCE, {terms} terms")
        losses.plot(x, spread, style, color=COLOURS[3], markersize=3, label=f"β · entropy, {terms} terms")
        for kind, colour in (("normal", COLOURS[2]), ("anomalous", COLOURS[1])):
            y = [at_the_end(some, lambda point, kind=kind: point[f"norm_{kind}"]) for some in seeds]
            lengths.plot(x, y, style, color=colour, markersize=3, label=f"{kind}, {terms} terms")
    for axis in (losses, lengths):
        axis.set_xticks(range(len(every)), [f"{value:g}" for value in every])
        axis.set_xlabel("β")
        axis.set_ylim(0, None)
axes[0].legend(fontsize=6)
axes[len(names)].legend(fontsize=6)
save(figure, options.picture)
