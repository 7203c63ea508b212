import numpy as np
import pytest

from normscope import datasets
from normscope.datasets.dataset import fingerprint
from normscope.errors import DatasetError, SettingError


def test_names_are_the_modules_that_load():
    expected = ["cifar10", "cifar100", "digits", "fashion-mnist", "folder", "imagenet", "mnist", "mvtec"]
    assert datasets.names() == expected


@pytest.mark.parametrize("name", datasets.names())
def test_each_says_what_it_is_made_of(name):
    source = datasets.about(name)
    assert source.name == name
    assert datasets.summary(name).endswith(".")
    assert source.home
    for download in source.downloads:
        assert download.files
        assert all(source.files[file] for file in download.files)
        assert len(download.md5) == 32
    assert bool(source.downloads) + bool(source.by_hand) == (1 if source.files else 0)


@pytest.mark.parametrize("name", ["fashion-mnist", "mnist", "cifar10", "cifar100", "imagenet", "mvtec", "folder"])
def test_files_are_looked_for_under_the_root_or_else_the_environment(name, tmp_path, monkeypatch):
    monkeypatch.delenv("NORMSCOPE_DATA", raising=False)
    with pytest.raises(DatasetError, match="set NORMSCOPE_DATA"):
        datasets.load(name)
    monkeypatch.setenv("NORMSCOPE_DATA", str(tmp_path / "environment"))
    with pytest.raises(DatasetError, match=r"environment.*is missing"):
        datasets.load(name)
    with pytest.raises(DatasetError, match=r"argument.*is missing"):
        datasets.load(name, str(tmp_path / "argument"))


def test_digits_need_no_root(monkeypatch):
    monkeypatch.delenv("NORMSCOPE_DATA", raising=False)
    assert datasets.load("digits").name == "digits"


@pytest.mark.parametrize("name", ["fashion_mnist", "idx", "", "../mnist"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(SettingError, match=r"no data set .*choose from .*fashion-mnist"):
        datasets.load(name)


def test_fingerprint_depends_on_values_shape_and_type():
    array = np.arange(6, dtype=np.uint8)
    others = [array[::-1], array.reshape(2, 3), array.astype(np.int64)]
    assert len({fingerprint(a) for a in [array, *others]}) == 4
    assert fingerprint(array.reshape(2, 3).T) == fingerprint(np.ascontiguousarray(array.reshape(2, 3).T))
