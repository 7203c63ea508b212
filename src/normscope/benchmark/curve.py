"""The learning curve of a detector: scores and code norms every few epochs; labels are used after the last."""

import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from normscope.benchmark.metrics import auroc
from normscope.datasets.task import Images
from normscope.detector import Detector
from normscope.errors import SettingError
from normscope.settings import JSON
from normscope.training.loop import Progress

MOST_IMAGES = 2000
Vector = NDArray[np.float64]


class Curve:
    """Looks at a detector in training (`Detector.fit(look=...)`) on at most 2,000 of the test images.

    Losses are means over the steps since the last look.
    """

    def __init__(self, detector: Detector, test_images: Images, chosen: NDArray[np.int64]) -> None:
        self.detector, self.seconds = detector, 0.0
        images, places = part(test_images, min(MOST_IMAGES, len(test_images)))
        self.images, self.chosen = images, chosen[places]
        self.looks: list[tuple[Progress, Mapping[str, float], Vector, Vector | None]] = []
        self.records: list[Mapping[str, float]] = []

    def watch(self, progress: Progress) -> None:
        self.records.append(progress.record)

    def look(self, progress: Progress) -> None:
        began = time.perf_counter()
        losses = {name: float(np.mean([r[name] for r in self.records])) for name in progress.record}
        self.looks.append((progress, losses, self.detector.score(self.images), self.lengths()))
        self.records.clear()
        self.seconds += time.perf_counter() - began

    def lengths(self) -> Vector | None:
        """‖z‖ of each image, where the method has codes."""
        try:
            return np.linalg.norm(self.detector.codes(self.images), axis=1)
        except SettingError:
            return None

    def points(self, is_anomaly: NDArray[np.bool_]) -> list[dict[str, JSON]]:
        """One point for each look, now that labels may be seen."""
        anomalous = is_anomaly[self.chosen]
        return [point(*look, anomalous) for look in self.looks]


def point(
    progress: Progress,
    losses: Mapping[str, float],
    scores: Vector,
    lengths: Vector | None,
    anomalous: NDArray[np.bool_],
) -> dict[str, JSON]:
    values = {name: round(value, 6) for name, value in losses.items()}
    if lengths is not None:
        values["norm_normal"] = round(float(lengths[~anomalous].mean()), 6)
        values["norm_anomalous"] = round(float(lengths[anomalous].mean()), 6)
    return {
        "phase": progress.phase,
        "epoch": progress.epoch,
        "step": progress.step,
        "seconds": round(progress.seconds, 2),
        "auroc": round(auroc(scores, anomalous), 6),
        **values,
    }


def part(images: Images, most: int | None) -> tuple[Images, NDArray[np.int64]]:
    """A random part of the images, always the same one, and their places; all of them if `most` is None."""
    everything = np.arange(len(images))
    if most is None or most >= len(images):
        return images, everything
    chosen = np.sort(np.random.default_rng(0).choice(everything, most, replace=False))
    return (images[chosen] if isinstance(images, np.ndarray) else [images[i] for i in chosen]), chosen
