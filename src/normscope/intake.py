"""What a caller gives, a folder, files or arrays → a store of images that is worth learning from or scoring."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from normscope.errors import ImageFolderError
from normscope.images import store
from normscope.images.folder import printable, scan
from normscope.images.store import Store, Unreadable

Pixels = npt.NDArray[np.uint8]
Images = str | Path | Sequence[str | Path] | Pixels | Sequence[Pixels]
"""A folder, a file, several files, or uint8 arrays [n, h, w] or [n, h, w, 3] (or a list of images of any sizes)."""

LEAST_IMAGES = 8
SMALLEST, LARGEST = 28, 256


class Entry(NamedTuple):
    """A file that was given or found in a folder, and why it cannot be read, as far as that is known."""

    path: Path
    reason: str | None = None


def entries(path: Path, *, must_exist: bool = False) -> list[Entry]:
    """A file as it is, or everything in a folder and below it, sorted."""
    if path.is_dir() or (must_exist and not path.exists()):
        found = scan(path)
        return sorted([Entry(image) for image in found.images] + [Entry(one.path, one.reason) for one in found.skipped])
    return [Entry(path, None if path.exists() else "does not exist")]


def expand(paths: Sequence[Path]) -> tuple[list[Path], list[Unreadable]]:
    """The files to read, and what is in the folders besides; a path that does not exist raises."""
    found = [entry for path in paths for entry in entries(path, must_exist=True)]
    files = [entry.path for entry in found if entry.reason is None]
    return files, [Unreadable(entry.path, entry.reason) for entry in found if entry.reason is not None]


def passed_over(reason: str) -> bool:
    """Whether a file was left out as nothing that anybody expects to be scored, and not because it is broken."""
    return reason == "hidden" or reason.startswith(("not an image", "link to a folder"))


def gather(
    images: Images,
    size: int | Literal["auto"],
    watch: Callable[[int, int], None] | None = None,
    largest_auto: int = LARGEST,
) -> tuple[Store, list[Unreadable]]:
    """The images at one size, and the files among them that were not or could not be read.

    `auto` is the typical shorter side, but at least 28 pixels and at most `largest_auto`.
    """
    given = as_sequence(images)
    if len(given) == 0:
        raise ImageFolderError("no image was given; give a folder, files or arrays")
    if not is_paths(given):
        arrays = cast("Pixels | Sequence[Pixels]", given)
        check_arrays(arrays)
        return store.from_arrays(arrays, chosen_size(arrays, size, largest_auto)), []
    paths, skipped = expand([Path(path) for path in given])
    if not paths:
        raise ImageFolderError(no_readable(given))
    pixels, unreadable = store.from_paths(paths, chosen_size(paths, size, largest_auto), progress=watch)
    if len(pixels) == 0:
        raise ImageFolderError(no_readable(given, unreadable))
    return pixels, skipped + unreadable


def read(images: Images, size: int) -> Store:
    """The images at one size; a file among them that cannot be read raises."""
    pixels, skipped = gather(images, size)
    if broken := [one for one in skipped if not passed_over(one.reason)]:
        raise ImageFolderError(
            f"{printable(broken[0].path)} cannot be read ({broken[0].reason}); "
            "score_paths gives such a file a row of its own"
        )
    return pixels


def as_sequence(images: Images) -> "Sequence[str | Path] | Pixels | Sequence[Pixels]":
    if isinstance(images, str | Path):
        return [images]
    if isinstance(images, np.ndarray) and images.ndim:
        return images
    try:
        return list(images)
    except TypeError:
        raise ImageFolderError(f"images are a {type(images).__name__}; give a folder, files or uint8 arrays") from None


def is_paths(images: "Sequence[str | Path] | Pixels | Sequence[Pixels]") -> TypeGuard[Sequence[str | Path]]:
    return not isinstance(images, np.ndarray) and all(isinstance(image, str | Path) for image in images)


def check_arrays(images: "Pixels | Sequence[Pixels]") -> None:
    if isinstance(images, np.ndarray) and images.ndim not in (3, 4):
        raise ImageFolderError(f"the array has shape {list(images.shape)}; give [n, h, w] or [n, h, w, 3]")
    for index, image in enumerate(images):
        if not isinstance(image, np.ndarray):
            raise ImageFolderError(f"image {index} is a {type(image).__name__}; give paths alone or uint8 arrays alone")


def common_size(images: Images) -> tuple[int, int] | None:
    """Height and width of images that are arrays of one size; None for all others."""
    arrays = [] if isinstance(images, str | Path) else [one for one in images if isinstance(one, np.ndarray)]
    sizes = {one.shape[:2] for one in arrays}
    return sizes.pop() if len(sizes) == 1 else None


def chosen_size(images: Sequence[Path] | Sequence[Pixels] | Pixels, size: int | Literal["auto"], most: int) -> int:
    return min(max(store.typical_size(images), SMALLEST), most) if size == "auto" else size


def check_worth_learning(normal: Store) -> None:
    if len(normal) < LEAST_IMAGES:
        count = f"{len(normal)} readable image{' is' if len(normal) == 1 else 's are'}"
        raise ImageFolderError(f"{count} too few to learn from; give {LEAST_IMAGES} or more, better 100")
    first, flat, same = normal[0], True, True
    for index in range(len(normal)):
        image = normal[index]
        flat = flat and bool((image == image[:, :, :1, :1]).all())
        same = same and bool((image == first).all())
        if not (flat or same):
            return
    what = "the same" if same else "of a single colour"
    raise ImageFolderError(
        f"all {len(normal)} images are {what}; there is nothing to learn from them, give images that differ"
    )


def no_readable(images: Sequence[str | Path], unreadable: Sequence[Unreadable] = ()) -> str:
    where = printable(Path(images[0])) if len(images) == 1 else f"what was given ({len(images)} paths)"
    if len(images) == 1 and not Path(images[0]).is_dir():
        return f"{where} cannot be read ({unreadable[0].reason}); give an image or a folder of them"
    return f"{where} has no readable image; `normscope doctor FOLDER` lists why each file was skipped"
