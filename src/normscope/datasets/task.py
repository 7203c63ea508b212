"""A benchmark task: normal images to train on, test images to score, and which of these are anomalies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8] | Sequence[Path]
"""uint8 [n, h, w] or [n, h, w, 3]; or files, if the images differ in size or are too many for memory."""


class Labels:
    """Which test images are anomalies. `looks` counts how often that was read, for a result to show no label leaked."""

    def __init__(self, is_anomaly: NDArray[np.bool_]) -> None:
        self._is_anomaly = is_anomaly
        self.looks = 0

    def look(self) -> NDArray[np.bool_]:
        """[n], bool."""
        self.looks += 1
        return self._is_anomaly


@dataclass(frozen=True, eq=False)
class Task:
    """Only test images have labels, and masks if it is known which pixels are anomalous."""

    train_images: Images
    test_images: Images
    test_labels: Labels
    test_masks: Sequence[Path | None] | None = None  # pictures, above 127 where anomalous; None: not known, or normal


class Benchmark(Protocol):
    """What every `load` of this package returns: one task for each class taken as normal."""

    @property
    def name(self) -> str: ...
    @property
    def class_names(self) -> tuple[str, ...]: ...
    @property
    def sha256(self) -> str: ...  # of the data, however they were packed
    def task(self, normal: int) -> Task: ...
