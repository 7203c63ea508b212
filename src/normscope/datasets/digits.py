"""The 1,797 grey handwritten digits of 8×8 that come with scikit-learn: the one data set that needs no file."""

from pathlib import Path

import numpy as np

from normscope.datasets.dataset import Dataset, fingerprint
from normscope.datasets.published import Published

TRAIN_IMAGES = 1000
CLASS_NAMES = tuple("0123456789")
PUBLISHED = Published(
    name="digits",
    home="https://scikit-learn.org/stable/modules/generated/sklearn.datasets.load_digits.html",
    folder="",
    files={},
)


def load(root: Path | None = None, *, verify: bool = True) -> Dataset:
    """The first 1,000 images are for training and the other 797 for testing, in scikit-learn's order.

    That order is nearly stratified: each class has 98 to 104 training images. Values 0..16 become 0..255.
    There is no file to verify.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    train, test = slice(None, TRAIN_IMAGES), slice(TRAIN_IMAGES, None)
    parts = (images[train], labels[train], images[test], labels[test])
    return Dataset("digits", *parts, CLASS_NAMES, fingerprint(*parts))
