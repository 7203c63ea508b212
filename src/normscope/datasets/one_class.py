"""One-versus-rest: one class of a data set is normal, every other one is an anomaly."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from normscope.datasets.dataset import Dataset
from normscope.errors import SettingError


@dataclass(frozen=True, eq=False)
class OneClass:
    """Normal images to learn from, and the whole test part to score; labels exist for the latter only."""

    train_images: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_is_anomaly: NDArray[np.bool_]


def one_class(dataset: Dataset, normal: int) -> OneClass:
    """The training images of class `normal` alone, and every test image."""
    classes = len(dataset.class_names)
    if not 0 <= normal < classes:
        raise SettingError(f"no class {normal} in {dataset.name}; choose from 0 to {classes - 1}")
    train_images = dataset.train_images[dataset.train_labels == normal]
    return OneClass(train_images, dataset.test_images, dataset.test_labels != normal)
