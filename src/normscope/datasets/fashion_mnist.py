"""Fashion-MNIST (Xiao et al. 2017): 60,000 and 10,000 grey pictures of clothes of 28×28."""

from pathlib import Path

from normscope.datasets.dataset import Dataset
from normscope.datasets.idx import load_idx
from normscope.datasets.published import data_folder

HOME = "https://github.com/zalandoresearch/fashion-mnist"
CLASS_NAMES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)
# Of the unpacked files: the MD5s on the publisher's page are of the .gz files, which distributors pack anew.
MD5 = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}


def load(root: Path | None = None, *, verify: bool = True) -> Dataset:
    """Read the four idx files, plain or .gz, in `root`/fashion-mnist; `verify=False` skips the MD5s."""
    return load_idx("fashion-mnist", data_folder(root, "fashion-mnist"), MD5, HOME, CLASS_NAMES, verify)
