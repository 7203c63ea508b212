"""Does the paper's entropy term improve an autoencoder? The paper expects it to, and gives no figure.

Without noise on the codes a decoder can undo whatever makes them smaller; with noise they have a scale to be paid for.
"""

from normscope.evaluation.experiment import read_options
from normscope.evaluation.figures import COLOURS, chance, panels, save, title

BETAS = (0.0, 0.01, 0.1, 1.0)
NOISE = {0.0: "no noise", 0.1: "noise of 0.1 on the codes"}

options = read_options(__doc__, "results/entropy_term.jsonl", "docs/entropy_term.png")
betas = (0.0, 0.1) if options.quick else BETAS
rows = options.rows(
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
        own = [row for row in rows if (row["dataset"], row["normal"]) == task and row["settings"]["noise"] == noise]
        own.sort(key=lambda row: row["settings"]["beta"])
        axis.plot(range(len(own)), [100 * row["metrics"]["auroc"] for row in own], "o-", color=colour, label=name)
        axis.set_xticks(range(len(own)), [f"{row['settings']['beta']:g}" for row in own])
    chance(axis)
    axis.set(xlabel="β")
axes[0].set_ylabel("AUROC in %")
axes[0].legend(fontsize=8)
save(figure, options.picture)
