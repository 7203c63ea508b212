"""What a caller gives, a folder, files or arrays → a store of images that is worth learning from or scoring."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from normscope.calibration import held_out
from normscope.errors import ImageFolderError
from normscope.images import store
from normscope.images.folder import printable, scan
from normscope.images.store import Store, Unreadable

Pixels = npt.NDArray[np.uint8]
Images = str | Path | Sequence[str | Path] | Pixels | Sequence[Pixels]
"""A folder, a file, several files, or uint8 arrays [n, h, w] or [n, h, w, 3] (or a list of images of any sizes)."""

LEAST_IMAGES = 8
SMALLEST, LARGEST, LARGEST_AUTO = 28, 256, 64


def gather(
    images: Images, size: int | Literal["auto"], watch: Callable[[int, int], None] | None = None
) -> tuple[Store, list[Unreadable]]:
    """The images at one size, and the files among them that could not be read."""
    if len(given := as_sequence(images)) == 0:
        raise ImageFolderError("no image was given; give a folder, files or arrays")
    if not is_paths(given):
        arrays = cast("Pixels | Sequence[Pixels]", given)
        return store.from_arrays(arrays, chosen_size(arrays, size)), []
    paths, skipped = expand([Path(path) for path in given])
    if not paths:
        raise ImageFolderError(no_readable(given))
    found, unreadable = store.from_paths(paths, chosen_size(paths, size), progress=watch)
    if len(found) == 0:
        raise ImageFolderError(no_readable(given))
    return found, skipped + unreadable


def as_sequence(images: Images) -> "Sequence[str | Path] | Pixels | Sequence[Pixels]":
    return [images] if isinstance(images, str | Path) else images


def is_paths(images: "Sequence[str | Path] | Pixels | Sequence[Pixels]") -> TypeGuard[Sequence[str | Path]]:
    return isinstance(images[0], str | Path)


def expand(paths: Sequence[Path]) -> tuple[list[Path], list[Unreadable]]:
    """Files as they are and the images of every folder; with what a folder holds that is no image."""
    files: list[Path] = []
    skipped: list[Unreadable] = []
    for path in paths:
        if path.is_dir() or not path.exists():
            found = scan(path)
            files += found.images
            skipped += [Unreadable(one.path, one.reason) for one in found.skipped]
        else:
            files.append(path)
    return files, skipped


def chosen_size(images: Sequence[Path] | Sequence[Pixels] | Pixels, size: int | Literal["auto"]) -> int:
    """`auto` is the typical shorter side, but at least 28 and at most 64 pixels."""
    return min(max(store.typical_size(images), SMALLEST), LARGEST_AUTO) if size == "auto" else size


def check_worth_learning(normal: Store) -> None:
    if len(normal) < LEAST_IMAGES:
        raise ImageFolderError(f"{len(normal)} readable images are too few to learn from; give {LEAST_IMAGES} or more")
    first, flat, same = normal[0], True, True
    for index in range(len(normal)):
        image = normal[index]
        flat = flat and bool((image == image[:, :, :1, :1]).all())
        same = same and bool((image == first).all())
        if not (flat or same):
            return
    what = "the same" if same else "of a single colour"
    raise ImageFolderError(f"all {len(normal)} images are {what}; there is nothing to learn from them")


def split(normal: Store, rate: float | None, rng: np.random.Generator) -> tuple[Store, Store | None]:
    """Images to train on, and images to calibrate with if a false-alarm rate is asked for."""
    if rate is None:
        return normal, None
    training, calibration = held_out(len(normal), rate, rng)
    return normal.subset(training), normal.subset(calibration)


def no_readable(images: Sequence[str | Path]) -> str:
    where = printable(Path(images[0])) if len(images) == 1 else f"what was given ({len(images)} paths)"
    return f"{where} has no readable image; `normscope doctor FOLDER` lists why each file was skipped"
