"""One cell of the benchmark: fit on one class alone, score every test image, compare with the labels afterwards."""

import platform
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import torch

from normscope import __version__, datasets
from normscope.datasets.dataset import Dataset
from normscope.datasets.one_class import one_class
from normscope.detector import Detector
from normscope.evaluation.metrics import auprc, auroc, fpr95
from normscope.settings import JSON


@dataclass(frozen=True)
class Cell:
    """What is measured: nothing here is known from test labels."""

    dataset: str
    method: str
    normal: int
    seed: int
    budget: float | None
    settings: Mapping[str, JSON]

    def key(self) -> tuple[object, ...]:
        """Two rows with the same key are the same measurement."""
        return (self.dataset, self.method, self.normal, self.seed, self.budget, repr(sorted(self.settings.items())))


def cell_of(row: Mapping[str, JSON]) -> tuple[object, ...]:
    """The key of the cell that a row was written for."""
    names = ("dataset", "method", "normal", "seed", "budget", "settings")
    return Cell(**{name: row[name] for name in names}).key()  # type: ignore[arg-type]


def run(cell: Cell, root: Path | None, threads: int) -> dict[str, JSON]:
    """The row of a cell. A failure is a row too, with its error."""
    before = torch.get_num_threads()
    row: dict[str, JSON] = {
        **asdict(cell),
        "metrics": None,
        "seconds": None,
        "images_per_second": None,
        "version": __version__,
        "torch": torch.__version__,
        "commit": commit(),
        "device": "cpu",
        "cpu": platform.processor() or platform.machine(),
        "threads": threads,
        "health": None,
        "error": None,
    }
    try:
        torch.set_num_threads(threads)
        row |= measure(cell, dataset(cell.dataset, root))
    except Exception as error:  # whatever it is, the other cells of the grid shall run
        row["error"] = f"{type(error).__name__}: {error}"
    finally:
        torch.set_num_threads(before)
    return row


def measure(cell: Cell, data: Dataset) -> dict[str, JSON]:
    task = one_class(data, cell.normal)
    detector = Detector(
        cell.method,
        settings=cell.settings,
        seed=cell.seed,
        budget=cell.budget,
        size="auto",
        false_alarm_rate=None,  # nothing is held out: the protocol trains on the whole class
        device="cpu",
    )
    began = time.perf_counter()
    detector.fit(task.train_images, allow_collapse=True)
    fitted = time.perf_counter()
    scores = detector.score(task.test_images)
    scored = time.perf_counter()
    assert detector.card is not None
    return {
        "metrics": {
            name: round(metric(scores, task.test_is_anomaly), 6)
            for name, metric in (("auroc", auroc), ("auprc", auprc), ("fpr95", fpr95))
        },
        "seconds": {"fit": round(fitted - began, 2), "score": round(scored - fitted, 2)},
        "images_per_second": round(len(scores) / (scored - fitted), 1),
        "health": detector.card["training"]["health"],
        "steps": detector.card["training"]["steps"],
        "data": data.sha256,
    }


@cache
def dataset(name: str, root: Path | None) -> Dataset:
    return datasets.load(name, root)


@cache
def commit() -> str | None:
    """The commit of a source checkout, with a plus if the source differs from it; None for an installed package."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():  # an environment inside somebody else's checkout has that one's commit
        return None
    try:
        name = git(root, "rev-parse", "--short", "HEAD")
        return name + ("+" if git(root, "status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
