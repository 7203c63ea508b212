"""CIFAR-10 (Krizhevsky 2009), binary version: 50,000 and 10,000 colour pictures of 32×32."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from normscope.datasets.dataset import Dataset, fingerprint
from normscope.datasets.published import Download, Published, data_folder, read_published
from normscope.errors import DatasetError

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FILES = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
PUBLISHED = Published(
    name="cifar10",
    home="https://www.cs.toronto.edu/~kriz/cifar.html",
    folder="cifar-10-batches-bin",
    files=FILES,
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", tuple(FILES)
        ),
    ),
)
ROW = 1 + 3 * 32 * 32  # the label, then the red, the green and the blue plane


def load(root: Path | None = None, *, verify: bool = True) -> Dataset:
    """Read the six .bin files in `root`/cifar-10-batches-bin; `verify=False` skips their MD5s."""
    folder = data_folder(root, PUBLISHED.folder)
    *train, test = (_rows(folder / file, verify) for file in PUBLISHED.files)
    train_images, train_labels = _split(np.concatenate(train))
    test_images, test_labels = _split(test)
    sha256 = fingerprint(train_images, train_labels, test_images, test_labels)
    return Dataset("cifar10", train_images, train_labels, test_images, test_labels, CLASS_NAMES, sha256)


def _rows(path: Path, verify: bool) -> NDArray[np.uint8]:
    content = read_published(path, PUBLISHED, verify)
    if not content or len(content) % ROW:
        raise DatasetError(f"{path} has {len(content)} bytes, expected rows of {ROW} as published at {PUBLISHED.home}")
    return np.frombuffer(content, np.uint8).reshape(-1, ROW)


def _split(rows: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    planes = rows[:, 1:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, 0].astype(np.int64)
