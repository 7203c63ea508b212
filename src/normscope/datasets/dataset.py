"""Labelled images in arrays, and one-versus-rest: one class is normal, every other one is an anomaly."""

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from normscope.datasets.task import Labels, Task
from normscope.errors import DatasetError, SettingError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled images, split into training and test images and ordered as published."""

    name: str
    train_images: NDArray[np.uint8]  # [n, h, w] grey or [n, h, w, 3] colour
    train_labels: NDArray[np.int64]  # [n], 0 to len(class_names) - 1
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    sha256: str  # of the four arrays above: `fingerprint` in this order

    def __post_init__(self) -> None:
        parts = (("train", self.train_images, self.train_labels), ("test", self.test_images, self.test_labels))
        for part, images, labels in parts:
            if len(images) != len(labels):
                raise DatasetError(f"{self.name} has {len(images)} {part} images but {len(labels)} {part} labels")
            if labels.size and not 0 <= labels.min() <= labels.max() < len(self.class_names):
                raise DatasetError(f"{self.name} has {part} labels outside 0 to {len(self.class_names) - 1}")

    def task(self, normal: int) -> Task:
        """Train on the training images of class `normal` alone, test on all test images."""
        check_class(self.name, normal, len(self.class_names))
        train_images = self.train_images[self.train_labels == normal]
        return Task(train_images, self.test_images, Labels(self.test_labels != normal))


def check_class(name: str, normal: int, classes: int) -> None:
    if not 0 <= normal < classes:
        raise SettingError(f"no class {normal} in {name}; choose from 0 to {classes - 1}")


def fingerprint(*arrays: NDArray[np.uint8] | NDArray[np.int64]) -> str:
    """SHA-256 of the arrays' types, shapes and values: the same however the files were packed."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
