"""A folder of your own with train/good, test/good and test/<defect>; give the folder itself as the data root."""

from pathlib import Path

from normscope.datasets.inspection import LAYOUT, NEEDS, Inspection, read_category
from normscope.datasets.published import Published, data_folder

PUBLISHED = Published(
    name="folder",
    home="your own images",
    folder="",
    files=dict.fromkeys(NEEDS),
    by_hand=f"it is your own folder, {LAYOUT}",
)


def load(root: Path | None = None, *, verify: bool = True) -> Inspection:
    """Read `root`, laid out as a category of MVTec AD; its one class, 0, has the folder's name.

    Masks in ground_truth/<defect> are named <image>_mask.png or <image>.png. There are no checksums to verify.
    """
    folder = data_folder(root, PUBLISHED.folder)
    return Inspection(PUBLISHED.name, folder, {name: read_category(folder) for name in classes(root)})


def classes(root: Path | None) -> dict[str, list[str]]:
    return {data_folder(root, PUBLISHED.folder).resolve().name or "good": []}
