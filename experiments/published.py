"""Do the rivals reach the figures published for them? VAE and Deep SVDD at published settings, GeoTrans narrower.

VAE and Deep SVDD train for all their epochs on MNIST. GeoTrans has a quarter of its width and stops at
the budget, long before its published end; its curve says how AUROC grows with the steps.
"""

from figures import COLOURS, panels, save
from options import read_options

from normscope.tables import paper
from normscope.tables.names import title

SETTINGS = {
    "vae": {"width": 128, "code": 32},
    "deep-svdd": {
        "network": "mnist",
        "pretrain_epochs": 150,
        "pretrain_milestone": 50,
        "pretrain_weight_decay": 5e-4,
    },
    "geotrans": {"width": 16, "references": 300},
}
EPOCHS = {"geotrans": 24}  # between two points of the curve
PART = {"geotrans": 500}  # test images

options = read_options(__doc__, "results/published.jsonl", "docs/published.png", ["mnist:0,3,6"], budget="20m")
methods = ("vae",) if options.quick else SETTINGS
cells = [
    cell
    for method in methods
    for cell in options.cells(method, SETTINGS[method], 1 if options.quick else EPOCHS.get(method), PART.get(method))
]
results = options.results(cells)
figure, axes = panels([title(*task) for task in options.tasks])
for axis, (dataset, normal) in zip(axes, options.tasks, strict=True):
    for colour, method in zip(COLOURS, methods, strict=False):
        own = [
            result
            for result in results
            if (result["dataset"], result["normal"], result["method"]) == (dataset, normal, method)
        ]
        for result in own:
            curve = result.get("curve") or [{"step": result["steps"], **result["metrics"]}]
            x, y = [point["step"] for point in curve], [100 * point["auroc"] for point in curve]
            axis.plot(x, y, "o-", color=colour, markersize=4, label=f"{method}, here")
        if printed := paper.row(dataset, method):
            axis.axhline(printed.classes[normal], color=colour, linestyle=":", label=f"{method}, published")
    axis.set(xlabel="steps", xlim=(0, None))
axes[0].set_ylabel("AUROC in %")
axes[0].legend(fontsize=8)
save(figure, options.picture)
