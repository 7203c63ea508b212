import hashlib
import io
import os
import pickle
import struct
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from normscope.datasets import cifar100
from normscope.errors import DatasetError


class PicklesLikePython2(pickle._Pickler):
    """Writes bytes and text alike as BINSTRING, as the publisher's Python 2 did."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, value):
        content = value.encode("latin1") if isinstance(value, str) else value
        self.write(b"T" + struct.pack("<i", len(content)) + content)

    dispatch[bytes] = dispatch[str] = save_string


def python2_pickle(value: object) -> bytes:
    stream = io.BytesIO()
    PicklesLikePython2(stream, protocol=2).dump(value)
    return stream.getvalue().replace(b"numpy._core.", b"numpy.core.")


def batch(start: int) -> dict[bytes, object]:
    """Four pictures of (start + j, 100, 200) all over, but for one pixel, of the superclass 16 + j."""
    planes = np.empty((4, 3, 32, 32), np.uint8)
    planes[:] = np.array([0, 100, 200])[None, :, None, None]
    planes[:, 0] = start + np.arange(4)[:, None, None]
    planes[:, 2, 5, 7] = 255
    return {
        b"filenames": [b"a.png"] * 4,
        b"batch_label": b"part 1 of 1",
        b"fine_labels": [99, 1, 2, 3],
        b"coarse_labels": [16, 17, 18, 19],
        b"data": planes.reshape(4, -1),
    }


def write_binary(path: Path, content: dict) -> None:
    labels = np.array([content[b"coarse_labels"], content[b"fine_labels"]], np.uint8).T
    path.write_bytes(np.concatenate([labels, content[b"data"]], axis=1).tobytes())


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    (folder / "train").write_bytes(python2_pickle(batch(10)))
    (folder / "test").write_bytes(python2_pickle(batch(50)))
    return folder


@pytest.fixture
def binary(tmp_path) -> Path:
    folder = tmp_path / "only" / "cifar-100-binary"
    folder.mkdir(parents=True)
    write_binary(folder / "train.bin", batch(10))
    write_binary(folder / "test.bin", batch(50))
    return folder


def test_pickles_of_python_2_become_colour_images_of_superclasses(folder):
    dataset = cifar100.load(folder.parent, verify=False)
    assert dataset.train_images.shape == (4, 32, 32, 3)
    assert dataset.train_images[1, 0, 0].tolist() == [11, 100, 200]
    assert dataset.test_images[3, 5, 7].tolist() == [53, 100, 255]
    assert dataset.test_images[3, 7, 5].tolist() == [53, 100, 200]
    assert dataset.test_labels.tolist() == [16, 17, 18, 19]
    assert len(dataset.class_names) == 20
    assert dataset.class_names[16:] == ("small mammals", "trees", "vehicles 1", "vehicles 2")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_pickles_of_python_3_are_read_as_well(folder, protocol):
    before = cifar100.load(folder.parent, verify=False).sha256
    (folder / "train").write_bytes(pickle.dumps(batch(10), protocol=protocol))
    assert cifar100.load(folder.parent, verify=False).sha256 == before


def test_the_binary_version_is_the_same_and_is_read_where_it_is_alone(folder, binary):
    assert cifar100.load(binary.parent, verify=False).sha256 == cifar100.load(folder.parent, verify=False).sha256
    (binary.parent / "cifar-100-python").mkdir()
    with pytest.raises(DatasetError, match=r"cifar-100-python.train .*is missing"):
        cifar100.load(binary.parent, verify=False)


def test_checksums_are_verified_before_anything_is_unpickled(folder, monkeypatch):
    (folder / "train").write_bytes(pickle.dumps(os.getcwd))
    with pytest.raises(DatasetError, match=r"train has .* expected MD5 16019d7e.*kriz"):
        cifar100.load(folder.parent)
    (folder / "train").write_bytes(python2_pickle(batch(10)))
    md5 = {name: hashlib.md5((folder / name).read_bytes()).hexdigest() for name in ("train", "test")}
    monkeypatch.setattr(cifar100, "PUBLISHED", cifar100.PUBLISHED._replace(files=md5))
    assert len(cifar100.load(folder.parent).test_labels) == 4


class Evil:
    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (Evil(os.mkdir, "made"), r"posix.mkdir|nt.mkdir"),
        (Evil(eval, "1/0"), r"(__builtin__|builtins).eval"),
        (Evil(np.load, "x"), r"numpy.load"),
        (Evil(bytes.fromhex, "00"), r"getattr"),
        (np.float64(1), r"multiarray.scalar"),
    ],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_that_wants_more_than_arrays_is_refused(folder, content, wanted, protocol, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "train").write_bytes(pickle.dumps({b"data": content}, protocol=protocol))
    with pytest.raises(DatasetError, match=rf"train is not a pickle of arrays \(wants .*({wanted})\); expected"):
        cifar100.load(folder.parent, verify=False)
    assert not (folder / "made").exists()


def test_no_other_codec_is_called(folder):
    (folder / "train").write_bytes(b"c_codecs\nencode\n(Va\nVzip\ntR.")
    with pytest.raises(DatasetError, match="wants the encoding 'zip'"):
        cifar100.load(folder.parent, verify=False)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        python2_pickle(batch(1))[:-100],
        python2_pickle([1]),
        python2_pickle({b"data": 1}),
        python2_pickle({**batch(1), b"data": b"12"}),
        python2_pickle({**batch(1), b"data": np.zeros((4, 3071), np.uint8)}),
        python2_pickle({**batch(1), b"data": np.zeros((4, 3072), np.float64)}),
        python2_pickle({**batch(1), b"coarse_labels": [b"a"]}),
    ],
)
def test_a_damaged_or_different_pickle_is_refused(folder, content):
    (folder / "test").write_bytes(content)
    with pytest.raises(DatasetError, match="test is not a pickle of arrays") as error:
        cifar100.load(folder.parent, verify=False)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("labels", [[0, 1, 2, 20], [0, 1, 2, -1], [0, 1, 2]])
def test_wrong_labels_are_refused(folder, labels):
    (folder / "test").write_bytes(python2_pickle({**batch(1), b"coarse_labels": labels}))
    with pytest.raises(DatasetError, match="test labels"):
        cifar100.load(folder.parent, verify=False)


def test_the_binary_version_is_checked_by_its_size(binary):
    with pytest.raises(DatasetError, match=r"train.bin has 12296 bytes, expected 153700000 as published"):
        cifar100.load(binary.parent)
    (binary / "test.bin").write_bytes(bytes(3073))
    with pytest.raises(DatasetError, match=r"test.bin has 3073 bytes, expected 30740000"):
        cifar100.load(binary.parent, verify=False)


@pytest.mark.parametrize("labels", [(20, 0), (0, 100)])
def test_the_binary_version_is_checked_by_its_labels(binary, labels):
    (binary / "test.bin").write_bytes(bytes(labels) + bytes(3072))
    with pytest.raises(DatasetError, match=f"labels up to {labels[0]} and {labels[1]}, expected 19 and 99"):
        cifar100.load(binary.parent, verify=False)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_refused(folder, make):
    (folder / "test").unlink()
    make(folder / "test")
    with pytest.raises(DatasetError, match="test is not a regular file; expected the file published"):
        cifar100.load(folder.parent, verify=False)
