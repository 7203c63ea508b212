import dataclasses

import numpy as np
import pytest

from normscope.datasets.dataset import Dataset
from normscope.datasets.task import Task
from normscope.errors import SettingError


def numbered() -> Dataset:
    """Image i is i all over; labels go 0 1 2 0 1 2 …"""
    train, test = np.arange(12, dtype=np.uint8), np.arange(100, 106, dtype=np.uint8)
    shape = (-1, 1, 1)
    parts = (train.reshape(shape), train.astype(np.int64) % 3, test.reshape(shape), np.arange(6) % 3)
    return Dataset("numbered", *parts, ("a", "b", "c"), "")


def test_training_holds_the_normal_class_alone_and_the_test_part_is_whole():
    split = numbered().task(normal=1)
    assert split.train_images.ravel().tolist() == [1, 4, 7, 10]
    assert split.test_images.ravel().tolist() == [100, 101, 102, 103, 104, 105]
    assert split.test_labels.look().tolist() == [True, False, True, True, False, True]
    assert split.test_labels.look().dtype == np.bool_


def test_looking_at_labels_is_counted():
    labels = numbered().task(normal=0).test_labels
    assert labels.looks == 0
    labels.look()
    assert labels.looks == 1


def test_no_label_goes_with_the_training_part():
    names = [f.name for f in dataclasses.fields(Task)]
    assert names == ["train_images", "test_images", "test_labels", "test_masks"]


@pytest.mark.parametrize("normal", [-1, 3])
def test_an_unknown_class_is_refused(normal):
    with pytest.raises(SettingError, match=f"no class {normal} in numbered; choose from 0 to 2"):
        numbered().task(normal)
