import gzip
import hashlib
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from normscope.datasets import fashion_mnist, mnist, published
from normscope.datasets.idx import parse_idx
from normscope.errors import DatasetError

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


BOTH = pytest.mark.parametrize("module", [mnist, fashion_mnist], ids=["mnist", "fashion-mnist"], indirect=True)


@pytest.fixture
def module(request):
    """mnist where one of the two will do: both are read by the same lines."""
    return getattr(request, "param", mnist)


@pytest.fixture
def arrays() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    shapes = [(20, 28, 28), (20,), (10, 28, 28), (10,)]
    return [random.integers(0, 10, shape).astype(np.uint8) for shape in shapes]


@pytest.fixture
def folder(module, arrays, tmp_path) -> Path:
    folder = tmp_path / module.__name__.rpartition(".")[2].replace("_", "-")
    folder.mkdir()
    for name, array in zip(FILES, arrays, strict=True):
        (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
    return folder


@BOTH
def test_packed_and_plain_files_are_read_alike(module, folder, arrays):
    packed = module.load(folder.parent, verify=False)
    for name, array in zip(FILES, arrays, strict=True):
        (folder / f"{name}.gz").unlink()
        (folder / name).write_bytes(idx(array))
    plain = module.load(folder.parent, verify=False)
    for dataset in (packed, plain):
        read = (dataset.train_images, dataset.train_labels, dataset.test_images, dataset.test_labels)
        assert all(np.array_equal(a, b) for a, b in zip(read, arrays, strict=True))
    assert packed.sha256 == plain.sha256
    assert packed.name == folder.name
    assert packed.train_images.dtype == np.uint8
    assert packed.train_labels.dtype == np.int64
    assert len(packed.class_names) == 10


def test_the_right_checksum_passes_however_the_file_was_packed(module, folder, arrays, monkeypatch):
    md5 = {name: hashlib.md5(idx(array)).hexdigest() for name, array in zip(FILES, arrays, strict=True)}
    monkeypatch.setattr(module, "PUBLISHED", module.PUBLISHED._replace(files=md5))
    (folder / f"{FILES[0]}.gz").write_bytes(gzip.compress(idx(arrays[0]), compresslevel=1, mtime=1))
    assert len(module.load(folder.parent).train_images) == 20


@BOTH
def test_another_file_of_the_same_format_is_refused(module, folder):
    with pytest.raises(
        DatasetError, match=f"train-images-idx3-ubyte.gz .* expected MD5 .* {module.PUBLISHED.home}"
    ) as error:
        module.load(folder.parent)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named_with_its_publisher(module, folder):
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DatasetError, match=f"t10k-labels-idx1-ubyte .*is missing.*{module.PUBLISHED.home}"):
        module.load(folder.parent, verify=False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_a_file_that_is_no_regular_file_is_refused(module, folder):
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    os.mkfifo(folder / "t10k-labels-idx1-ubyte")
    with pytest.raises(DatasetError, match="t10k-labels-idx1-ubyte is not a regular file; expected the file published"):
        module.load(folder.parent, verify=False)


def test_a_truncated_packed_file_is_refused(module, folder):
    path = folder / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DatasetError, match=r"t10k-images-idx3-ubyte.gz cannot be read"):
        module.load(folder.parent, verify=False)


@pytest.mark.parametrize("content", [b"", b"not gzip", b"\x1f\x8b\x08\x00" + bytes(6) + b"\xff" * 30])
def test_a_file_that_is_not_gzip_is_refused(module, folder, content):
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(content)
    with pytest.raises(DatasetError, match="train-labels-idx1-ubyte"):
        module.load(folder.parent, verify=False)


def test_a_file_that_unpacks_without_end_is_refused(module, folder, monkeypatch):
    monkeypatch.setattr(published, "LARGEST", 1000)
    path = folder / "train-images-idx3-ubyte.gz"
    with pytest.raises(DatasetError, match=r"idx3-ubyte.gz has more than 1,000 bytes; expected the file published at"):
        module.load(folder.parent, verify=False)
    (folder / "train-images-idx3-ubyte").write_bytes(gzip.decompress(path.read_bytes()))
    path.unlink()
    with pytest.raises(DatasetError, match=r"idx3-ubyte has more than 1,000 bytes; expected the file published at"):
        module.load(folder.parent, verify=False)


def test_fewer_labels_than_images_is_refused(module, folder, arrays):
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(arrays[1][:-1])))
    with pytest.raises(DatasetError, match="20 train images but 19 train labels"):
        module.load(folder.parent, verify=False)


def test_a_label_without_a_class_is_refused(module, folder, arrays):
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(arrays[3] + 10)))
    with pytest.raises(DatasetError, match="test labels outside 0 to 9"):
        module.load(folder.parent, verify=False)


@pytest.mark.parametrize("cut", [0, 3, 8, 15, 16, 100])
def test_a_truncated_idx_file_is_refused(cut):
    content = idx(np.zeros((2, 10, 10), np.uint8))
    with pytest.raises(DatasetError, match="images-idx3"):
        parse_idx(content[:cut], Path("images-idx3"), 3)


def test_idx_of_another_type_or_dimension_or_too_long_is_refused():
    labels = idx(np.zeros(5, np.uint8))
    with pytest.raises(DatasetError, match="3 dimensions"):
        parse_idx(labels, Path("f"), 3)
    with pytest.raises(DatasetError, match="unsigned bytes"):
        parse_idx(b"\x00\x00\x0d" + labels[3:], Path("f"), 1)
    with pytest.raises(DatasetError, match="has 14 bytes, expected 13"):
        parse_idx(labels + b"\x00", Path("f"), 1)


def test_idx_values_are_in_row_major_order_and_writable():
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    parsed = parse_idx(idx(array), Path("f"), 3)
    assert np.array_equal(parsed, array)
    assert parsed.flags.writeable
