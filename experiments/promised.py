"""What is found at the threshold that `fit` sets, by its own choice (`auto`), on folders of photographs, and with
--exclude-outliers, which leaves the images out that may not be normal.

The promise is kept by normal images of the folder alone, so a few odd ones among them raise the threshold. The data
root has magnetic-tile, boards and breast, each with train/good, test/good and test/<defect>.
"""

import statistics
import tempfile
from pathlib import Path

import torch
from figures import COLOURS, panels, save
from options import read_options
from pieces import pieces

from normscope import Detector
from normscope.datasets import folder as folders
from normscope.datasets.published import data_folder

FOLDERS = ("magnetic-tile", "boards", "breast")
RATES = (0.01, 0.05)
FITS = {False: "fit", True: "fit --exclude-outliers"}

options = read_options(__doc__, "results/promised.jsonl", "docs/promised.png", budget="5m")
torch.set_num_threads(options.threads)


def measure(folder: str, excluding: bool, seed: int) -> dict:
    task = folders.load(data_folder(root, folder)).task(0)
    detector = Detector(seed=seed, budget=options.budget, epochs=options.epochs, device="cpu")
    detector.fit(list(task.train_images), exclude_outliers=excluding)
    scores = detector.score(list(task.test_images))
    calibrations = [detector.calibration.at(rate) for rate in RATES]
    flagged, bad = [one.anomalous(scores) for one in calibrations], task.test_labels.look()
    return {
        "named": len(detector.outliers),
        "promised": [one.achievable for one in calibrations],
        "found": [round(float(one[bad].mean()), 6) for one in flagged],
        "flagged": [round(float(one[~bad].mean()), 6) for one in flagged],
    }


names = ("pieces",) if options.quick else FOLDERS
with tempfile.TemporaryDirectory() as temporary:
    root = pieces(Path(temporary) / "pieces").parent if options.quick else options.data_root
    keys = [(name, excluding, seed) for seed in range(options.seeds) for name in names for excluding in FITS]
    found = options.lines(("folder", "excluding", "seed"), keys, measure)
figure, axes = panels(list(names))
for axis, folder in zip(axes, names, strict=True):
    for place, excluding in enumerate(FITS):
        own = [line for key, line in found.items() if key[:2] == (folder, excluding)]
        for number, (rate, colour) in enumerate(zip(RATES, COLOURS, strict=False)):
            values, height = [100 * line["found"][number] for line in own], place + 0.3 * number
            label = None if place else f"promised {100 * rate:g} %"
            axis.barh(height, statistics.mean(values or [0]), 0.28, color=colour, label=label)
            axis.plot(values, [height] * len(values), "|", color="#222222")
    axis.set_yticks([0.15, 1.15], FITS.values() if folder == names[0] else ["", ""])
    axis.set(xlim=(0, 100), xlabel="found, %")
axes[0].legend(fontsize=8)
save(figure, options.picture)
