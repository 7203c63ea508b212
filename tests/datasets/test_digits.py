import numpy as np
from sklearn.datasets import load_digits

from normscope.datasets import digits


def test_digits_are_scikit_learns_in_order_on_256_levels():
    dataset, bunch = digits.load(), load_digits()
    images = np.concatenate([dataset.train_images, dataset.test_images])
    assert images.shape == (1797, 8, 8)
    assert images.dtype == np.uint8
    assert images.min() == 0
    assert images.max() == 255
    assert np.array_equal(np.rint(images / 255 * 16), bunch.images)
    assert np.array_equal(np.concatenate([dataset.train_labels, dataset.test_labels]), bunch.target)


def test_first_thousand_train_and_every_class_is_in_both_parts():
    dataset = digits.load()
    assert len(dataset.train_images) == 1000
    assert np.bincount(dataset.train_labels).min() == 98
    assert np.bincount(dataset.train_labels).max() == 104
    assert np.bincount(dataset.test_labels).min() == 76


def test_fingerprint_is_stable():
    assert digits.load().sha256 == digits.load().sha256
    assert digits.load().sha256.startswith("d913b97faad33f69")
