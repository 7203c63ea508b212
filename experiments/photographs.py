"""Folders of photographs with `fit`'s own choice, beside what a user would pick instead, on the same encoder.

PaDiM (Defard et al. 2021) and PatchCore (Roth et al. 2022) are written here from their papers, for images squashed to
224 pixels; the coreset of PatchCore is drawn from 20,000 random patches, which a processor can do. An isolation forest
on the codes (scikit-learn's, which PyOD wraps) stands for what needs no maps. The data root has magnetic-tile, boards
and breast, each with train/good, test/good and test/<defect>; the last two are development data.
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from figures import COLOURS, panels, save
from options import read_options
from PIL import Image
from sklearn.datasets import load_sample_image
from sklearn.ensemble import IsolationForest
from torch import Tensor

from normscope.benchmark.cell import Cell
from normscope.benchmark.protocol import measure as measure_cell
from normscope.benchmark.protocol import metrics
from normscope.datasets import folder as folders
from normscope.datasets.published import data_folder
from normscope.intake import read
from normscope.networks.pretrained import LITE0, Frozen
from normscope.scoring.local import columns, fit_local, local_surprisal
from normscope.training.batches import to_float

FOLDERS = ("magnetic-tile", "boards", "breast")
METHODS = ("auto", "PatchCore", "PaDiM", "isolation forest")
SIDE, BATCH = 224, 16
SAMPLED, CORESET = 20_000, 2_000

options = read_options(__doc__, "results/photographs.jsonl", "docs/photographs.png", budget="5m")
torch.set_num_threads(options.threads)


def encoded(images) -> tuple[Tensor, list[Tensor]]:
    """Codes [n, d], and the three finer maps."""
    network, pixels = Frozen(LITE0, SIDE, (SIDE, SIDE)), read(images, (SIDE, SIDE))
    network.restore()
    network.to(memory_format=torch.channels_last)
    with torch.inference_mode():
        batches = [network(to_float(pixels[i : i + BATCH], torch.device("cpu"))) for i in range(0, len(pixels), BATCH)]
    *maps, last = (torch.cat(one) for one in zip(*batches, strict=True))
    return last.mean((2, 3)), maps


def padim(train: list[Tensor], test: list[Tensor]) -> Tensor:
    grid = train[1].shape[2:]
    chosen = torch.randperm(sum(one.shape[1] for one in train))[:100]
    reference = fit_local(columns(train, grid)[:, chosen])
    return local_surprisal(columns(test, grid)[:, chosen], reference).flatten(1).amax(1)


def patchcore(train: list[Tensor], test: list[Tensor]) -> Tensor:
    def patches(maps: list[Tensor]) -> Tensor:
        """[n, h·w, c]: of the maps at 1/8 and 1/16, each location with its neighbours."""
        near = [F.avg_pool2d(one, 3, 1, 1) for one in maps[1:]]
        return columns(near, maps[1].shape[2:]).flatten(2).movedim(1, 2)

    every = patches(train).flatten(0, 1)
    memory = coreset(every[torch.randperm(len(every))[:SAMPLED]])
    return torch.stack([torch.cdist(one, memory).amin(1).amax() for one in patches(test)])


def coreset(rows: Tensor) -> Tensor:
    """Each next row is the one farthest from those that are in."""
    chosen = [0]
    nearest = (rows - rows[0]).norm(dim=1)
    while len(chosen) < (20 if options.quick else min(CORESET, len(rows))):
        chosen.append(int(nearest.argmax()))
        nearest = nearest.minimum((rows - rows[chosen[-1]]).norm(dim=1))
    return rows[chosen]


def measure(folder: str, method: str, seed: int) -> dict:
    data = folders.load(data_folder(root, folder))
    if method == "auto":
        return measure_cell(Cell("folder", method, 0, seed, options.budget, {}), data)
    task, began = data.task(0), time.perf_counter()
    torch.manual_seed(seed)
    (codes, maps), (new_codes, new_maps) = encoded(task.train_images), encoded(task.test_images)
    if method == "isolation forest":
        scores = -IsolationForest(random_state=seed).fit(codes.numpy()).score_samples(new_codes.numpy())
    else:
        scores = {"PaDiM": padim, "PatchCore": patchcore}[method](maps, new_maps).double().numpy()
    seconds = {"fit": round(time.perf_counter() - began, 2)}
    found = metrics(np.asarray(scores), task.test_labels.look())
    return {"metrics": {name: round(value, 6) for name, value in found.items()}, "seconds": seconds}


def crops(root: Path) -> Path:
    """A small folder of the same layout, for a quick run: pieces of a photograph, some with a dark bar across."""
    photograph = load_sample_image("china.jpg")
    rng = np.random.default_rng(0)
    for part, n in (("train/good", 24), ("test/good", 8), ("test/bar", 8)):
        (root / part).mkdir(parents=True)
        for number in range(n):
            y, x = rng.integers(0, 300, 2)
            piece = photograph[y : y + 96, x : x + 96].copy()
            if part == "test/bar":
                piece[40:44, 10:80] = 0
            Image.fromarray(piece).save(root / part / f"{number}.png")
    return root


names = ("crops",) if options.quick else FOLDERS
with tempfile.TemporaryDirectory() as temporary:
    root = crops(Path(temporary) / "crops").parent if options.quick else options.data_root
    keys = [(name, method, seed) for seed in range(options.seeds) for name in names for method in METHODS]
    found = options.lines(("folder", "method", "seed"), keys, measure)
figure, axes = panels(list(names))
for axis, folder in zip(axes, names, strict=True):
    for place, method in enumerate(reversed(METHODS)):
        own = [100 * line["metrics"]["auroc"] for key, line in found.items() if key[:2] == (folder, method)]
        if own:
            axis.barh(place, statistics.mean(own), color=COLOURS[0] if method == "auto" else "#b9c2cc")
            axis.plot(own, [place] * len(own), "|", color="#222222")
    axis.set_yticks(range(len(METHODS)), list(reversed(METHODS)) if folder == names[0] else [""] * len(METHODS))
    axis.set(xlim=(40, 100), xlabel="AUROC in %")
save(figure, options.picture)
