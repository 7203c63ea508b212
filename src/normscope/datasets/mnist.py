"""MNIST (LeCun et al. 1998): 60,000 and 10,000 grey handwritten digits of 28×28."""

from pathlib import Path

from normscope.datasets.dataset import Dataset
from normscope.datasets.idx import load_idx
from normscope.datasets.published import data_folder

HOME = "http://yann.lecun.com/exdb/mnist/"
CLASS_NAMES = tuple("0123456789")
MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def load(root: Path | None = None, *, verify: bool = True) -> Dataset:
    """Read the four idx files, plain or .gz, in `root`/mnist; `verify=False` skips the MD5s of the unpacked files."""
    return load_idx("mnist", data_folder(root, "mnist"), MD5, HOME, CLASS_NAMES, verify)
