"""The idx format of MNIST and of the data sets that took it over."""

import math
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from normscope.datasets.dataset import Dataset, fingerprint
from normscope.datasets.published import read_published
from normscope.errors import DatasetError

UNSIGNED_BYTE = 8


def parse_idx(content: bytes, path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file; `path` is only for the error.

    Layout, big-endian: two zero bytes, the type, the number of dimensions, each dimension in four bytes, the values.
    """
    header = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]) or len(content) < header:
        raise DatasetError(f"{path} is not an idx file of unsigned bytes in {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) != header + math.prod(shape):
        raise DatasetError(f"{path} has {len(content)} bytes, expected {header + math.prod(shape)} for shape {shape}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()


def load_idx(
    name: str, folder: Path, md5: Mapping[str, str], home: str, class_names: tuple[str, ...], verify: bool
) -> Dataset:
    """The four files of an MNIST-like data set in `folder`, each plain or as .gz; `md5` maps their plain names."""

    def read(file: str, dimensions: int) -> NDArray[np.uint8]:
        return parse_idx(read_published(folder / file, md5[file], home, verify), folder / file, dimensions)

    train_images = read("train-images-idx3-ubyte", 3)
    train_labels = read("train-labels-idx1-ubyte", 1).astype(np.int64)
    test_images = read("t10k-images-idx3-ubyte", 3)
    test_labels = read("t10k-labels-idx1-ubyte", 1).astype(np.int64)
    sha256 = fingerprint(train_images, train_labels, test_images, test_labels)
    return Dataset(name, train_images, train_labels, test_images, test_labels, class_names, sha256)
