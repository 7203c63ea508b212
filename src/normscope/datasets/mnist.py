"""MNIST (LeCun et al. 1998): 60,000 and 10,000 grey handwritten digits of 28×28."""

from pathlib import Path

from normscope.datasets.dataset import Dataset
from normscope.datasets.idx import load_idx, packed_files
from normscope.datasets.published import Published

SERVER = "https://ossci-datasets.s3.amazonaws.com/mnist"
CLASS_NAMES = tuple("0123456789")
PUBLISHED = Published(
    name="mnist",
    home="http://yann.lecun.com/exdb/mnist/",
    folder="mnist",
    files={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    downloads=packed_files(
        SERVER,
        {
            "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
        },
    ),
)


def load(root: Path | None = None, *, verify: bool = True) -> Dataset:
    """Read the four idx files, plain or .gz, in `root`/mnist; `verify=False` skips the MD5s of the unpacked files."""
    return load_idx(PUBLISHED, CLASS_NAMES, root, verify)
