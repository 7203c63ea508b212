"""Folders of photographs with `fit`'s own choice, `auto`, and the same with the smaller encoder, `pretrained`; the
picture shows them beside what a user would pick instead.

The others, anomalib's PaDiM and PatchCore and PyOD's detectors on the same encoder, are measured by
`benchmarks/accuracy.py`, in an environment of their own. The data root has magnetic-tile, boards and breast, each with
train/good, test/good and test/<defect>; the last two are development data.
"""

import statistics
import tempfile
from pathlib import Path

import torch
from figures import COLOURS, panels, save
from options import read_options
from pieces import pieces

from normscope.benchmark.cell import Cell
from normscope.benchmark.protocol import measure as measure_cell
from normscope.datasets import folder as folders
from normscope.datasets.published import data_folder

FOLDERS = ("magnetic-tile", "boards", "breast")
OURS = ("auto", "pretrained")

options = read_options(__doc__, "results/photographs.jsonl", "docs/photographs.png", budget="5m")
torch.set_num_threads(options.threads)


def measure(folder: str, method: str, seed: int) -> dict:
    data = folders.load(data_folder(root, folder))
    return measure_cell(Cell("folder", method, 0, seed, options.budget, {}), data)


names = ("pieces",) if options.quick else FOLDERS
with tempfile.TemporaryDirectory() as temporary:
    root = pieces(Path(temporary) / "pieces").parent if options.quick else options.data_root
    keys = [(name, "auto", seed) for seed in range(options.seeds) for name in names]
    keys += [(name, "pretrained", seed) for seed in range(options.seeds) for name in names if name != "breast"]
    found = options.lines(("folder", "method", "seed"), keys, measure)
methods = sorted({method for _, method, _ in found}, key=lambda one: (one not in OURS, one), reverse=True)
figure, axes = panels(list(names))
for axis, folder in zip(axes, names, strict=True):
    for place, method in enumerate(methods):
        own = [100 * line["metrics"]["auroc"] for key, line in found.items() if key[:2] == (folder, method)]
        if own:
            axis.barh(place, statistics.mean(own), color=COLOURS[0] if method in OURS else "#b9c2cc")
            axis.plot(own, [place] * len(own), "|", color="#222222")
    axis.set_yticks(range(len(methods)), methods if folder == names[0] else [""] * len(methods))
    axis.set(xlim=(40, 100), xlabel="AUROC in %")
save(figure, options.picture)
