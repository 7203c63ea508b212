"""The idx format of MNIST and of the data sets that took it over."""

import math
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from normscope.datasets.dataset import Dataset, fingerprint
from normscope.datasets.published import Download, Published, data_folder, read_published
from normscope.errors import DatasetError

UNSIGNED_BYTE = 8


def parse_idx(content: bytes, path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of unsigned bytes in the `content` of an idx file; `path` is named in errors.

    Layout, big-endian: two zero bytes, the type, the number of dimensions, each dimension in four bytes, the values.
    """
    header = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]) or len(content) < header:
        raise DatasetError(f"{path} is not an idx file of unsigned bytes in {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) != header + math.prod(shape):
        raise DatasetError(f"{path} has {len(content)} bytes, expected {header + math.prod(shape)} for shape {shape}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape).copy()


def packed_files(server: str, md5: Mapping[str, str]) -> tuple[Download, ...]:
    """One download for each idx file; `md5` maps the name of the unpacked file to the MD5 of the .gz file."""
    return tuple(Download(f"{server}/{file}.gz", packed, (file,)) for file, packed in md5.items())


def load_idx(source: Published, class_names: tuple[str, ...], root: Path | None, verify: bool) -> Dataset:
    """The four files of an MNIST-like data set, each plain or as .gz."""
    folder = data_folder(root, source.folder)

    def read(file: str, dimensions: int) -> NDArray[np.uint8]:
        return parse_idx(read_published(folder / file, source, verify), folder / file, dimensions)

    train_images = read("train-images-idx3-ubyte", 3)
    train_labels = read("train-labels-idx1-ubyte", 1).astype(np.int64)
    test_images = read("t10k-images-idx3-ubyte", 3)
    test_labels = read("t10k-labels-idx1-ubyte", 1).astype(np.int64)
    sha256 = fingerprint(train_images, train_labels, test_images, test_labels)
    return Dataset(source.name, train_images, train_labels, test_images, test_labels, class_names, sha256)
