"""ImageNet (ILSVRC 2012; Russakovsky et al. 2015): 1,000 classes of photographs, merged into ten superclasses.

The paper merges "similar category labels using Latent Dirichlet Allocation" and says no more; its grouping is not
known. Ours is LDA over the words of the class names, so figures cannot be compared with the paper's class by class.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from normscope.datasets.dataset import check_class
from normscope.datasets.listing import images_in, size_of
from normscope.datasets.published import Published, data_folder, read_published
from normscope.datasets.superclasses import Grouping, superclasses
from normscope.datasets.task import Labels, Task
from normscope.errors import DatasetError

MAPPING = "LOC_synset_mapping.txt"
PUBLISHED = Published(
    name="imagenet",
    home="https://www.image-net.org/challenges/LSVRC/2012/",
    folder="imagenet",
    files=dict.fromkeys((MAPPING, "train/*", "val/*")),
    by_hand=f"log in at https://www.image-net.org or https://www.kaggle.com/c/imagenet-object-localization-challenge, "
    f"put {MAPPING} there and sort the images into train/<wnid> and val/<wnid>",
)


@dataclass(frozen=True, eq=False)
class ImageNet:
    """Image files by class, and the classes by superclass."""

    root: Path
    grouping: Grouping
    train: dict[str, list[Path]]  # by class
    test: dict[str, list[Path]]
    name: str = PUBLISHED.name

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.grouping)

    @cached_property
    def sha256(self) -> str:
        """Of the grouping and of the names and sizes of all files: to read over a million images would take hours."""
        digest = hashlib.sha256(json.dumps(self.grouping).encode())
        parts = (*self.train.values(), *self.test.values())
        for path in sorted(path for part in parts for path in part):
            name = path.relative_to(self.root).as_posix()
            digest.update(f"{name}\0{size_of(path)}\0".encode(errors="surrogateescape"))
        return digest.hexdigest()

    def task(self, normal: int) -> Task:
        """Train on the training images of one superclass, test on the validation images of all."""
        check_class(self.name, normal, len(self.grouping))
        members = self.grouping[self.class_names[normal]]
        train_images = [image for wnid in members for image in self.train[wnid]]
        test_images = [image for images in self.test.values() for image in images]
        is_anomaly = [wnid not in members for wnid, images in self.test.items() for _ in images]
        return Task(train_images, test_images, Labels(np.array(is_anomaly)))


def load(root: Path | None = None, *, verify: bool = True) -> ImageNet:
    """List `root`/imagenet/{train,val}/<wnid>; no image is opened, and there are no checksums to verify.

    The grouping is kept in superclasses.json there, and read from there. It may have fewer than ten superclasses.
    """
    folder = data_folder(root, PUBLISHED.folder)
    names = _class_names(folder)
    for part in ("train", "val"):
        if absent := [wnid for wnid in names if not (folder / part / wnid).is_dir()]:
            raise DatasetError(
                f"{folder / part / absent[0]} is missing; expected one folder of images for each line of {MAPPING}"
            )
    train, test = ({wnid: images_in(folder / part / wnid) for wnid in sorted(names)} for part in ("train", "val"))
    return ImageNet(folder, _grouping(folder, names), train, test)


def classes(root: Path | None) -> dict[str, list[str]]:
    """Maps each superclass to its classes, each as its wnid and names."""
    folder = data_folder(root, PUBLISHED.folder)
    names = _class_names(folder)
    return {one: [f"{wnid} {names[wnid]}" for wnid in wnids] for one, wnids in _grouping(folder, names).items()}


def _grouping(folder: Path, names: dict[str, str]) -> Grouping:
    grouping = superclasses(names, folder / "superclasses.json")
    if len(grouping) < 2:
        raise DatasetError(f"{folder / MAPPING} gives one superclass only; expected class names that differ")
    return grouping


def _class_names(folder: Path) -> dict[str, str]:
    """Maps wnids to names, read from lines such as `n01440764 tench, Tinca tinca`."""
    path = folder / MAPPING
    names: dict[str, str] = {}
    text = read_published(path, PUBLISHED).decode(errors="replace")
    for number, line in enumerate(text.rstrip().splitlines(), start=1):
        match = re.fullmatch(r"(n\d{8}) (.*\S.*)", line.strip())
        if not match or match[1] in names:
            raise DatasetError(f"{path} line {number} is {line[:60]!r}; expected a new class, e.g. 'n01440764 tench'")
        names[match[1]] = match[2]
    if not names:
        raise DatasetError(f"{path} is empty; expected lines such as 'n01440764 tench, Tinca tinca'")
    return names
