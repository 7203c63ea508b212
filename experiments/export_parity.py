"""How far the scores of exported graphs are from those of the model, for every method and both formats.

Each method is fitted for an epoch to 100 normal images, with a small network where its own takes long, and exported;
model and graph then score 40 test images, beside the generated ones that every export is checked with. Images are
scikit-learn's digits and, from the data root, magnetic-tile, with train/good and test/<anything>; --quick takes digits
and two methods.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from normscope import Detector, __version__
from normscope.benchmark import results
from normscope.benchmark.commit import commit
from normscope.datasets import digits
from normscope.datasets.published import data_folder
from normscope.errors import ExportError, SettingError
from normscope.export.exporting import FORMATS, export
from normscope.images.folder import scan
from normscope.images.outcome import Kind
from normscope.intake import read
from normscope.methods import method_names, settings_of
from normscope.settings import build, to_json

NORMAL, TESTED = 100, 40
SMALL = {"encoder": "tiny", "width": 16, "depth": 1, "batch_size": 16, "transforms": 4, "network": "cifar10"}
DATASETS = ("digits", "magnetic-tile")
AS_THEY_ARE = ("pretrained", "surprisal")  # what `auto` chooses from
OWN = {"anogan": {"search": "encoder"}, "geotrans": {"depth": 10}}  # a search is no forward pass; the least depth

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--quick", action="store_true", help="digits, two methods")
parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
parser.add_argument("--out", type=Path, default=Path("results/export.jsonl"))
parser.add_argument("--methods", nargs="+", help="else all")
parser.add_argument("--data-root", type=Path, help="else NORMSCOPE_DATA")
parser.add_argument("--threads", type=int, default=1)
options = parser.parse_args()
torch.set_num_threads(options.threads)


def spread(items: list, n: int) -> list:
    """n of them, at equal distances."""
    return [items[index * len(items) // n] for index in range(n)]


def files(folder: Path, n: int) -> list[Path]:
    return spread([one.path for one in scan(folder) if one.kind is Kind.IMAGE], n)


def images(dataset: str) -> tuple[object, object]:
    """Those to learn from, those to score."""
    if dataset == "digits":
        task = digits.load().task(3)
        return task.train_images[:NORMAL], task.test_images[:TESTED]
    root = data_folder(options.data_root, dataset)
    return files(root / "train" / "good", NORMAL), files(root / "test", TESTED)


def settings(method: str) -> dict[str, object]:
    if method in AS_THEY_ARE:
        return {}
    return {key: value for key, value in SMALL.items() if takes(method, key, value)} | OWN.get(method, {})


def takes(method: str, key: str, value: object) -> bool:
    try:
        build(settings_of(method), {key: value})
    except SettingError:
        return False
    return True


def measure(method: str, normal: object, tested: object) -> list[dict]:
    """A line for each format; one alone, with the reason, if there is no graph of the method."""
    detector = Detector(method, settings=settings(method), epochs=1, false_alarm_rate=0.1, device="cpu")
    model = detector.fit(normal, allow_collapse=True).model
    pixels = np.ascontiguousarray(read(tested, model.size)[:].transpose(0, 2, 3, 1))
    known = {"method": method, "settings": to_json(detector.options.settings), "size": list(model.size)}
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for to, one in FORMATS.items():
            began, file = time.perf_counter(), Path(folder, f"model{one.suffix}")
            try:
                parity, error = export(model, to, file, pixels)._asdict(), None
            except ExportError as reason:
                parity, error = None, f"{type(reason).__name__}: {reason}"
            size = sum(part.stat().st_size for part in Path(folder).iterdir() if part.stem == "model" and parity)
            seconds = round(time.perf_counter() - began, 1)
            lines.append(known | {"format": to, "parity": parity, "bytes": size, "seconds": seconds, "error": error})
            for part in Path(folder).iterdir():
                part.unlink()
    return lines


done = {(line["dataset"], line["method"]) for line in results.read(options.out)}
every = ["pca", "vae"] if options.quick else sorted(method_names(), key=lambda method: method not in AS_THEY_ARE)
for dataset in ["digits"] if options.quick else options.datasets:
    normal, tested = images(dataset)
    for method in options.methods or every:
        for line in measure(method, normal, tested) if (dataset, method) not in done else []:
            about = {"dataset": dataset, **line, "version": __version__, "commit": commit(), "device": "cpu"}
            results.append(options.out, about)
            print(dataset, method, line["format"], line["parity"] or line["error"], flush=True)
