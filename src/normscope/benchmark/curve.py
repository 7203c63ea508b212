"""What becomes of a method while it trains: scores and code lengths every few epochs, labels only at the end."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from normscope import inference
from normscope.benchmark.metrics import auroc
from normscope.datasets.task import Images
from normscope.images.store import Store
from normscope.intake import read
from normscope.settings import JSON
from normscope.training.method import Method, Reference
from normscope.training.observer import Observer, Progress

MOST_IMAGES = 2000
Vector = NDArray[np.float64]


class Point(NamedTuple):
    """The method after some epochs: losses since the last point, scores and code norms of the test images."""

    progress: Progress
    losses: Mapping[str, float]
    scores: Vector
    norms: Vector | None  # None: the method has no codes


class Curve(Observer):
    """Scores at most 2,000 of the test images every `every` epochs; 0 observes nothing."""

    def __init__(self, every: int, test_images: Images, chosen: NDArray[np.int64]) -> None:
        self.every, self.seconds = every, 0.0
        images, places = part(test_images, min(MOST_IMAGES, len(test_images)))
        self.test_images, self.chosen = images, chosen[places]
        self.pixels: Store | None = None  # read when the size is known, and once
        self.points: list[Point] = []
        self.sums: dict[str, float] = {}
        self.count = 0

    def step(self, progress: Progress) -> None:
        self.sums = {name: self.sums.get(name, 0.0) + value for name, value in progress.record.items()}
        self.count += 1

    def epoch(self, progress: Progress, method: Method, reference: Reference) -> None:
        began = time.perf_counter()
        if self.pixels is None:
            self.pixels = read(self.test_images, method.shape[1:])
        images = inference.encoded(method, self.pixels, torch.device("cpu"))
        losses = {name: total / self.count for name, total in self.sums.items()}
        norms = np.linalg.norm(inference.codes(method, images), axis=1) if method.has_codes else None
        self.points.append(Point(progress, losses, inference.scores(method, reference, images), norms))
        self.sums, self.count = {}, 0
        self.seconds += time.perf_counter() - began

    def rows(self, is_anomaly: NDArray[np.bool_]) -> list[dict[str, JSON]]:
        """The points as JSON, now that labels may be seen."""
        return [as_json(point, is_anomaly[self.chosen]) for point in self.points]


def as_json(point: Point, anomalous: NDArray[np.bool_]) -> dict[str, JSON]:
    values = {name: round(value, 6) for name, value in point.losses.items()}
    if point.norms is not None:
        values["norm_normal"] = round(float(point.norms[~anomalous].mean()), 6)
        values["norm_anomalous"] = round(float(point.norms[anomalous].mean()), 6)
    progress = point.progress
    return {
        "phase": progress.phase,
        "epoch": progress.epoch,
        "step": progress.step,
        "seconds": round(progress.seconds, 2),
        "auroc": round(auroc(point.scores, anomalous), 6),
        **values,
    }


def part(images: Images, most: int | None) -> tuple[Images, NDArray[np.int64]]:
    """A random part of the images, always the same one, and their places; all of them if `most` is None."""
    everything = np.arange(len(images))
    if most is None or most >= len(images):
        return images, everything
    chosen = np.sort(np.random.default_rng(0).choice(everything, most, replace=False))
    return (images[chosen] if isinstance(images, np.ndarray) else [images[i] for i in chosen]), chosen
