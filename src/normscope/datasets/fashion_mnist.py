"""Fashion-MNIST (Xiao et al. 2017): 60,000 and 10,000 grey pictures of clothes of 28×28."""

from pathlib import Path

from normscope.datasets.dataset import Dataset
from normscope.datasets.idx import load_idx, packed_files
from normscope.datasets.published import Published

SERVER = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
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
PUBLISHED = Published(
    name="fashion-mnist",
    home="https://github.com/zalandoresearch/fashion-mnist",
    folder="fashion-mnist",
    # Of the unpacked files: the MD5s on the publisher's page are of the .gz files, which distributors pack anew.
    files={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    downloads=packed_files(
        SERVER,
        {
            "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
        },
    ),
)


def load(root: Path | None = None, *, verify: bool = True) -> Dataset:
    """Read the four idx files, plain or .gz, in `root`/fashion-mnist; `verify=False` skips the MD5s."""
    return load_idx(PUBLISHED, CLASS_NAMES, root, verify)
