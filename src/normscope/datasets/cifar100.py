"""CIFAR-100 (Krizhevsky 2009): 50,000 and 10,000 colour pictures of 32×32 in 20 superclasses of five classes each."""

import io
from pathlib import Path
from pickle import Unpickler

import numpy as np
from numpy.typing import NDArray

from normscope.datasets.dataset import Dataset, fingerprint
from normscope.datasets.published import Download, Published, data_folder, read_published
from normscope.errors import DatasetError

HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
CLASS_NAMES = (
    *("aquatic mammals", "fish", "flowers", "food containers", "fruit and vegetables"),
    *("household electrical devices", "household furniture", "insects", "large carnivores"),
    *("large man-made outdoor things", "large natural outdoor scenes", "large omnivores and herbivores"),
    *("medium mammals", "non-insect invertebrates", "people", "reptiles", "small mammals", "trees"),
    *("vehicles 1", "vehicles 2"),
)
FINE_CLASSES = 100
BINARY = Published("cifar100", HOME, "cifar-100-binary", {"train.bin": None, "test.bin": None})
PUBLISHED = Published(
    name="cifar100",
    home=HOME,
    folder="cifar-100-python",
    files={"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            "eb9058c3a382ffc7106e4002c42a8d85",
            ("train", "test"),
        ),
    ),
    instead=BINARY,
)
ROW = 2 + 3 * 32 * 32  # in the binary version: the superclass, the class, then the red, the green and the blue plane
ROWS = {"train.bin": 50_000, "test.bin": 10_000}

Part = tuple[NDArray[np.uint8], NDArray[np.int64]]


def load(root: Path | None = None, *, verify: bool = True) -> Dataset:
    """Read `root`/cifar-100-python, or `root`/cifar-100-binary where that is all there is.

    The python files are checked by their MD5s before anything is unpickled. Those of the binary files are not known to
    us: they are checked by their sizes and the ranges of their labels. `verify=False` skips MD5s and sizes.
    """
    pickled, binary = data_folder(root, PUBLISHED.folder), data_folder(root, BINARY.folder)
    if binary.is_dir() and not pickled.exists():
        parts = [_from_binary(binary / file, verify) for file in BINARY.files]
    else:
        parts = [_from_pickle(pickled / file, verify) for file in PUBLISHED.files]
    arrays = (*parts[0], *parts[1])
    return Dataset(PUBLISHED.name, *arrays, CLASS_NAMES, fingerprint(*arrays))


class ArraysOnly(Unpickler):
    """Unpickles numpy arrays written by Python 2, and refuses to import anything else."""

    ADMITTED = (
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
    )

    def find_class(self, module: str, name: str) -> object:
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes for Python 2
            return _encode
        if (module, name) not in self.ADMITTED:
            raise DatasetError(f"wants {module}.{name}")
        return super().find_class(module, name)


def _encode(text: str, encoding: bytes | str) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise DatasetError(f"wants the encoding {encoding!r}")
    return text.encode("latin1")


def _from_pickle(path: Path, verify: bool) -> Part:
    content = read_published(path, PUBLISHED, verify)
    try:
        batch = ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        rows, labels = batch[b"data"], np.array(batch[b"coarse_labels"], np.int64)
        if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8:
            raise DatasetError("its data are not bytes")
        return _images(rows), labels
    # A damaged pickle makes Unpickler raise nearly anything: EOFError, KeyError, ValueError, MemoryError ...
    except Exception as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise DatasetError(
            f"{path} is not a pickle of arrays ({reason}); expected the file published at {HOME}"
        ) from error


def _from_binary(path: Path, verify: bool) -> Part:
    content = read_published(path, BINARY, verify)
    expected = ROW * ROWS[path.name]
    if not content or len(content) % ROW or (verify and len(content) != expected):
        raise DatasetError(f"{path} has {len(content)} bytes, expected {expected} as published at {HOME}")
    rows = np.frombuffer(content, np.uint8).reshape(-1, ROW)
    if rows[:, 0].max() >= len(CLASS_NAMES) or rows[:, 1].max() >= FINE_CLASSES:
        raise DatasetError(
            f"{path} has labels up to {rows[:, 0].max()} and {rows[:, 1].max()}, expected 19 and 99 at most as "
            f"published at {HOME}"
        )
    return _images(rows[:, 2:]), rows[:, 0].astype(np.int64)


def _images(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
