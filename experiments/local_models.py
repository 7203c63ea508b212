"""Which model of a location suits which images: one Gaussian for each location, one for all, or a memory of patches.

The maps of `pretrained`, averaged over 3 × 3 locations; the score of an image is its hottest location. `boards` has
real defects and no two boards are alike. The others are training images of magnetic-tile, as they lie and each turned
by a random angle as parts on a belt are; half of those to be scored have self-made defects. The memory (PatchCore, Roth
et al. 2022) is a coreset of whitened patches. No label of the tiles' test images is looked at.
"""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from figures import COLOURS, chance, panels, save
from options import read_options
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import Tensor

from normscope.benchmark.metrics import auroc
from normscope.datasets.published import data_folder
from normscope.images.folder import scan
from normscope.intake import read
from normscope.networks.pretrained import LITE0, Frozen
from normscope.scoring.local import columns, fit_local, hottest, local_surprisal, with_neighbours
from normscope.training.batches import to_float
from normscope.training.method import Reference
from normscope.views.defects import defective

SIDE, TRAINED, SCORED = 224, 120, 80
SAMPLED, CORESET = 10_000, 1_500
TASKS = ("boards", "tiles", "turned tiles")

options = read_options(__doc__, "results/local_models.jsonl", "docs/local_models.png")
torch.set_num_threads(options.threads)
trained, scored = (8, 4) if options.quick else (TRAINED, SCORED)


def fit_one(maps: Tensor) -> Reference:
    """One Gaussian for all locations."""
    rows = maps.flatten(2).movedim(1, 2).flatten(0, 1).double()
    covariance = rows.T.cov()
    floor = 0.01 * covariance.diagonal().mean() * torch.eye(len(covariance), dtype=torch.float64)
    whitener = torch.linalg.inv(torch.linalg.cholesky(covariance + floor))
    return {"mean": rows.mean(0).float(), "whitener": whitener.float()}


def whitened(maps: Tensor, reference: Reference) -> Tensor:
    """[n, c, h, w] → [n, h·w, c]."""
    return (maps.flatten(2).movedim(1, 2) - reference["mean"]) @ reference["whitener"].T


def surprisal_of_one(maps: Tensor, reference: Reference) -> Tensor:
    return whitened(maps, reference).square().mean(2).unflatten(1, maps.shape[2:])


def fit_memory(maps: Tensor) -> Reference:
    reference = fit_one(maps)
    rows = whitened(maps, reference).flatten(0, 1)
    rows = rows[torch.randperm(len(rows))[:SAMPLED]]
    chosen, nearest = [0], (rows - rows[0]).norm(dim=1)
    while len(chosen) < min(CORESET, len(rows)):  # each next one is the farthest from those that are in
        chosen.append(int(nearest.argmax()))
        nearest = nearest.minimum((rows - rows[chosen[-1]]).norm(dim=1))
    return {**reference, "memory": rows[chosen]}


def distance_to_memory(maps: Tensor, reference: Reference) -> Tensor:
    near = [torch.cdist(one, reference["memory"]).amin(1) for one in whitened(maps, reference)]
    return torch.stack(near).square().unflatten(1, maps.shape[2:])


MODELS: dict[str, tuple[Callable[[Tensor], Reference], Callable[[Tensor, Reference], Tensor]]] = {
    "a Gaussian for each location": (fit_local, local_surprisal),
    "one Gaussian for all": (fit_one, surprisal_of_one),
    "memory of patches": (fit_memory, distance_to_memory),
}


def images_of(task: str, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """To fit to, normal, and with defects; float [n, 3, h, w]."""
    if task == "boards":
        parts = [("train/good", trained), ("test/good", scored), ("test/defect", scored)]
        found = [floats(files("boards", part)[:n]) for part, n in parts]
        return found[0], found[1], found[2]
    every = files("magnetic-tile", "train/good")
    chosen = [every[i] for i in rng.permutation(len(every))[: trained + 2 * scored]]
    x = floats(chosen)
    x[-scored:] = defective(x[-scored:])[0]
    if task == "turned tiles":
        x = torch.stack([turned(one, rng.uniform(0, 360)) for one in x])
    return x[:trained], x[trained:-scored], x[-scored:]


def files(folder: str, part: str) -> list[Path]:
    return [one.path for one in scan(data_folder(root, folder) / part)]


def floats(paths: list[Path]) -> Tensor:
    return to_float(read(paths, (SIDE, SIDE))[:], torch.device("cpu"))


def turned(image: Tensor, degrees: float) -> Tensor:
    """About its middle, at 0.7 of its size so that all of it stays in sight, on grey."""
    small = Image.fromarray(((image + 1) * 127.5).byte().movedim(0, 2).numpy()).resize((round(0.7 * SIDE),) * 2)
    around = Image.new("RGB", (SIDE, SIDE), (90, 90, 90))
    around.paste(small, ((SIDE - small.width) // 2,) * 2)
    result = around.rotate(degrees, resample=Image.Resampling.BILINEAR, fillcolor=(90, 90, 90))
    return torch.from_numpy(np.array(result)).movedim(2, 0).float() / 127.5 - 1


def maps_of(images: Tensor) -> Tensor:
    with torch.inference_mode():
        _, *middle, _ = network(images)
    return columns([with_neighbours(one) for one in middle], middle[0].shape[2:])


def measure(task: str, seed: int) -> dict:
    """All models on the same maps."""
    torch.manual_seed(seed)
    train, normal, defects = map(maps_of, images_of(task, np.random.default_rng(seed)))
    metrics, odd = {}, np.arange(2 * len(normal)) >= len(normal)
    for name, (fit, score) in MODELS.items():
        reference = fit(train)
        metrics[name] = round(auroc(hottest(score(torch.cat([normal, defects]), reference)).numpy(), odd), 6)
    return {"trained": len(train), "scored": len(odd), "metrics": metrics}


def small_folders(root: Path) -> Path:
    """For a quick run: pieces of a photograph, laid out alike."""
    pieces, rng = load_sample_image("china.jpg"), np.random.default_rng(0)
    for part in ("boards/train/good", "boards/test/good", "boards/test/defect", "magnetic-tile/train/good"):
        (root / part).mkdir(parents=True)
        for number in range(trained + 2 * scored):
            y, x = rng.integers(0, 300, 2)
            Image.fromarray(pieces[y : y + 96, x : x + 96]).save(root / part / f"{number}.png")
    return root


network = Frozen(LITE0, SIDE, (SIDE, SIDE))
network.restore()
network.to(memory_format=torch.channels_last)
with tempfile.TemporaryDirectory() as temporary:
    root = small_folders(Path(temporary)) if options.quick else options.data_root
    found = options.lines(("task", "seed"), [(task, seed) for task in TASKS for seed in range(options.seeds)], measure)
figure, axes = panels(list(TASKS))
for axis, task in zip(axes, TASKS, strict=True):
    for place, model in enumerate(MODELS):
        own = [100 * line["metrics"][model] for key, line in found.items() if key[0] == task]
        if own:
            axis.bar(place, statistics.mean(own), color=COLOURS[place], label=model)
            axis.plot([place] * len(own), own, "_", color="#222222")
    chance(axis)
    axis.set(xticks=[], ylim=(40, 100))
axes[0].set_ylabel("AUROC in %")
axes[0].legend(fontsize=7)
save(figure, options.picture)
