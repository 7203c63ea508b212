"""MVTec AD (Bergmann et al. 2019): 15 kinds of objects and textures, good ones to learn from, real defects to find."""

from pathlib import Path

from normscope.datasets.inspection import NEEDS, Inspection, read_category
from normscope.datasets.listing import folders_in
from normscope.datasets.published import Published, data_folder
from normscope.errors import DatasetError

HOME = "https://www.mvtec.com/company/research/datasets/mvtec-ad"
PUBLISHED = Published(
    name="mvtec",
    home=HOME,
    folder="mvtec",
    files=dict.fromkeys(f"*/{part}" for part in NEEDS),
    by_hand=f"accept its licence at {HOME} and unpack the archive there",
)


def load(root: Path | None = None, *, verify: bool = True) -> Inspection:
    """Read `root`/mvtec/<category>: every folder there is a class, and its task holds that category alone.

    The publisher gives no checksums to verify.
    """
    folder = data_folder(root, PUBLISHED.folder)
    return Inspection(PUBLISHED.name, folder, {name: read_category(folder / name) for name in classes(root)})


def classes(root: Path | None) -> dict[str, list[str]]:
    folder = data_folder(root, PUBLISHED.folder)
    found: dict[str, list[str]] = {category.name: [] for category in folders_in(folder)}
    if not found:
        raise DatasetError(f"{folder} has no category; expected folders such as bottle, published at {HOME}")
    return found
