import hashlib
from pathlib import Path

import numpy as np
import pytest

from normscope.datasets import cifar10
from normscope.errors import DatasetError


@pytest.fixture
def folder(tmp_path) -> Path:
    """Six files of four images; image j of file i is (10·i + j, 100, 200) all over, but for one pixel, of class j."""
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for i, name in enumerate(cifar10.FILES):
        planes = np.empty((4, 3, 32, 32), np.uint8)
        planes[:] = np.array([0, 100, 200])[None, :, None, None]
        planes[:, 0] = 10 * i + np.arange(4)[:, None, None]
        planes[:, 2, 5, 7] = 255
        rows = np.concatenate([np.arange(4, dtype=np.uint8)[:, None], planes.reshape(4, -1)], axis=1)
        (folder / name).write_bytes(rows.tobytes())
    return folder


def test_files_become_colour_images_in_order(folder):
    dataset = cifar10.load(folder.parent, verify=False)
    assert dataset.train_images.shape == (20, 32, 32, 3)
    assert dataset.test_images.shape == (4, 32, 32, 3)
    assert dataset.train_images[9, 0, 0].tolist() == [21, 100, 200]  # the second image of the third file
    assert dataset.test_images[3, 5, 7].tolist() == [53, 100, 255]
    assert dataset.test_images[3, 7, 5].tolist() == [53, 100, 200]
    assert dataset.train_labels.tolist() == [0, 1, 2, 3] * 5
    assert dataset.class_names[9] == "truck"


def test_checksums_are_verified(folder, monkeypatch):
    with pytest.raises(DatasetError, match=r"data_batch_1.bin .* expected MD5 5dd7.*kriz"):
        cifar10.load(folder.parent)
    md5 = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in cifar10.FILES}
    monkeypatch.setattr(cifar10, "PUBLISHED", cifar10.PUBLISHED._replace(files=md5))
    assert len(cifar10.load(folder.parent).test_labels) == 4


@pytest.mark.parametrize("size", [0, 3072, 3074])
def test_a_truncated_file_is_refused(folder, size):
    (folder / "data_batch_4.bin").write_bytes(bytes(size))
    with pytest.raises(DatasetError, match=rf"data_batch_4.bin has {size} bytes, expected rows of 3073"):
        cifar10.load(folder.parent, verify=False)


def test_a_missing_file_is_named(folder):
    (folder / "test_batch.bin").unlink()
    with pytest.raises(DatasetError, match=r"test_batch.bin .*is missing"):
        cifar10.load(folder.parent, verify=False)
