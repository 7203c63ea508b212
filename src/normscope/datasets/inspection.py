"""Folders laid out as in MVTec AD: good images to train on, good and defective ones to test on, masks of defects."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from normscope.datasets.dataset import check_class
from normscope.datasets.listing import folders_in, images_in
from normscope.datasets.task import Labels, Task
from normscope.errors import DatasetError
from normscope.images.notation import printable

GOOD = "good"
NEEDS = ("train/good", "test/good", "test/*")
LAYOUT = "expected train/good, test/good, test/<defect> and, if there are masks, ground_truth/<defect>"


class Category(NamedTuple):
    """The files of one kind of object."""

    train: list[Path]
    test: list[Path]
    is_anomaly: list[bool]
    masks: list[Path | None] | None  # one for each test image, or None where no mask is known

    def files(self) -> list[Path]:
        return [*self.train, *self.test, *(mask for mask in self.masks or [] if mask)]


@dataclass(frozen=True, eq=False)
class Inspection:
    """Categories by name; each is a task of its own."""

    name: str
    root: Path
    categories: Mapping[str, Category]

    @property
    def class_names(self) -> tuple[str, ...]:
        return tuple(self.categories)

    @cached_property
    def sha256(self) -> str:
        """Of the names, relative to the root, and the contents of all images and masks; computed on first use."""
        digest = hashlib.sha256()
        for path in sorted(path for category in self.categories.values() for path in category.files()):
            digest.update(f"{path.relative_to(self.root).as_posix()}\0".encode(errors="surrogateescape"))
            digest.update(_content_digest(path))
        return digest.hexdigest()

    def task(self, normal: int) -> Task:
        check_class(self.name, normal, len(self.categories))
        category = self.categories[self.class_names[normal]]
        return Task(category.train, category.test, Labels(np.array(category.is_anomaly)), category.masks)


def read_category(folder: Path) -> Category:
    """The files of a category, sorted by path; no image is opened.

    A defect without a folder in ground_truth has no masks. Where there is one, every test image must have its mask.
    """
    for part in ("train/good", "test/good"):
        if not (folder / part).is_dir():
            raise DatasetError(f"{printable(folder / part)} is missing; {LAYOUT} in {printable(folder)}")
    kinds = folders_in(folder / "test")
    if len(kinds) < 2:
        raise DatasetError(f"{printable(folder / 'test')} has no defect; {LAYOUT} in {printable(folder)}")
    test = {kind.name: images_in(kind) for kind in kinds}
    truth = folder / "ground_truth"
    masks = [mask for kind, images in test.items() for mask in _masks(truth / kind, images)] if truth.exists() else None
    return Category(
        images_in(folder / "train" / GOOD),
        [image for images in test.values() for image in images],
        [kind != GOOD for kind, images in test.items() for _ in images],
        masks,
    )


def _masks(folder: Path, images: list[Path]) -> list[Path | None]:
    """The mask of each image: <name>_mask.png as MVTec has them, or <name>.png, or another kind of image."""
    if folder.name == GOOD or not folder.exists():
        return [None] * len(images)
    masks = {mask.stem: mask for mask in images_in(folder)}
    for image in images:
        if f"{image.stem}_mask" not in masks and image.stem not in masks:
            raise DatasetError(
                f"{printable(image)} has no mask; expected {printable(folder / image.stem)}_mask.png or "
                f"{printable(image.stem)}.png beside it"
            )
    return [masks.get(f"{image.stem}_mask") or masks[image.stem] for image in images]


def _content_digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DatasetError(f"{printable(path)} cannot be read ({error.strerror}); expected an image") from error
