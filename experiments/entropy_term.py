"""Does the paper's entropy term improve an autoencoder? The paper expects it to, and gives no figure.

Without noise on the codes a decoder can undo whatever makes them smaller; with noise they have a scale to be paid for.
"""

from figures import COLOURS, chance, panels, save
from options import read_options

from normscope.tables.names import title

BETAS = (0.0, 0.01, 0.1, 1.0)
NOISE = {0.0: "no noise", 0.1: "noise of 0.1 on the codes"}

options = read_options(__doc__, "results/entropy_term.jsonl", "docs/entropy_term.png")
betas = (0.0, 0.1) if options.quick else BETAS
results = options.results(
    [
        cell
        for noise in NOISE
        for beta in betas
        for cell in options.cells("autoencoder", {"width": 16, "beta": beta, "noise": noise})
    ]
)
figure, axes = panels([title(*task) for task in options.tasks])
for axis, task in zip(axes, options.tasks, strict=True):
    for colour, (noise, name) in zip(COLOURS, NOISE.items(), strict=False):
        own = [
            result
            for result in results
            if (result["dataset"], result["normal"]) == task and result["settings"]["noise"] == noise
        ]
        own.sort(key=lambda result: result["settings"]["beta"])
        axis.plot(range(len(own)), [100 * result["metrics"]["auroc"] for result in own], "o-", color=colour, label=name)
        axis.set_xticks(range(len(own)), [f"{result['settings']['beta']:g}" for result in own])
    chance(axis)
    axis.set(xlabel="β")
axes[0].set_ylabel("AUROC in %")
axes[0].legend(fontsize=8)
save(figure, options.picture)
