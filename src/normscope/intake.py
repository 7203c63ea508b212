"""What a caller gives, a folder, files or arrays → a store of images that is worth learning from or scoring."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeGuard, TypeVar, cast

import numpy as np
import numpy.typing as npt

from normscope.errors import ImageFolderError
from normscope.images import store
from normscope.images.folder import check_path, scan
from normscope.images.notation import printable
from normscope.images.outcome import FileOutcome, Kind
from normscope.images.size import SMALLEST, Auto, Size, typical_size
from normscope.images.store import Store

Pixels = npt.NDArray[np.uint8]
Images = str | Path | Sequence[str | Path] | Pixels | Sequence[Pixels]
"""A folder, a file, several files, or uint8 arrays [n, h, w] or [n, h, w, 3] (or a list of images of any sizes)."""

LEAST_IMAGES = 8
PEEKED = 20
T = TypeVar("T")


def gather(
    images: Images, size: Size | Auto, watch: Callable[[int, int], None] | None = None
) -> tuple[Store, list[FileOutcome]]:
    """The images at one size, and the files among them that were not or could not be read.

    `Auto` is the typical size of the images that can be read (`images.size`).
    """
    given = as_sequence(images)
    if len(given) == 0:
        raise ImageFolderError("no image was given; give a folder, files or arrays")
    if not is_paths(given):
        arrays = cast("Pixels | Sequence[Pixels]", given)
        check_arrays(arrays)
        chosen = typical_size(array_shapes(arrays), size) if isinstance(size, Auto) else size
        return store.from_arrays(arrays, chosen), []
    found = expand([Path(path) for path in given])
    paths = [one.path for one in found if one.kind is Kind.IMAGE]
    if isinstance(size, Auto):
        pixels, outcomes = read_at_typical_size(paths, size, watch)
    else:
        pixels, outcomes = store.from_paths(paths, size, progress=watch)
    if len(pixels) == 0:
        raise ImageFolderError(no_readable(given, outcomes))
    decoded = iter(outcomes)
    became = [next(decoded) if one.kind is Kind.IMAGE else one for one in found]
    return pixels, [one for one in became if one.kind is not Kind.IMAGE]


def peek(images: Images) -> tuple[Store, int]:
    """A few of the images that can be read, tiny, none if nothing can; and how many there are, read or not."""
    given = as_sequence(images)
    if not is_paths(given):
        arrays = cast("Pixels | Sequence[Pixels]", given)
        check_arrays(arrays)
        some = [arrays[index] for index in spread(range(len(arrays)), PEEKED)]
        return store.from_arrays(some, (SMALLEST, SMALLEST)), len(arrays)
    found = expand([Path(path) for path in given])
    paths = [one.path for one in found if one.kind is Kind.IMAGE]
    return first_readable(sorted(paths, key=by_hash), PEEKED), len(paths)


def by_hash(path: Path) -> bytes:
    """An order as good as random that is the same whichever other files there are."""
    return hashlib.sha256(os.fsencode(path.name)).digest()


def first_readable(paths: Sequence[Path], n: int) -> Store:
    """The first n images that can be read, tiny: so files that cannot have no say in which these are."""
    tried = n
    while True:
        pixels, _ = store.from_paths(paths[:tried], (SMALLEST, SMALLEST))
        if len(pixels) >= n or tried >= len(paths):
            return pixels.subset(slice(0, n))
        tried *= 2


def read(images: Images, size: Size) -> Store:
    """The images at one size; a file among them that cannot be read raises."""
    pixels, left_out = gather(images, size)
    if broken := [one for one in left_out if one.kind is Kind.UNREADABLE]:
        raise ImageFolderError(
            f"{printable(broken[0].path)} cannot be read ({broken[0].reason}); "
            "score_paths gives such a file a row of its own"
        )
    return pixels


def expand(paths: Sequence[Path]) -> list[FileOutcome]:
    """The files given and those in the folders given; a path at which nothing can be found raises."""
    for path in paths:
        check_path(path)
    return [one for path in paths for one in scan(path)]


def read_at_typical_size(
    paths: Sequence[Path], auto: Auto, watch: Callable[[int, int], None] | None
) -> tuple[Store, list[FileOutcome]]:
    """As `store.from_paths`, at the typical size of all images that can be read.

    It is known only when all have been read. So it is guessed from a few, and in the rare case that the guess was wrong
    all are read again: most folders hold images of one size, or of sizes above the largest.
    """
    guess = typical_size(store.from_paths(spread(paths), (SMALLEST, SMALLEST))[0].shapes, auto, len(paths))
    pixels, outcomes = store.from_paths(paths, guess, progress=watch)
    size = typical_size(pixels.shapes, auto)
    return (pixels, outcomes) if size == guess else store.from_paths(paths, size, progress=watch)


def spread(items: Sequence[T], n: int = 3) -> Sequence[T]:
    """At most n of them, at equal distances."""
    return items if len(items) <= n else [items[len(items) * index // n] for index in range(n)]


def array_shapes(arrays: "Pixels | Sequence[Pixels]") -> list[Size]:
    """Of those that can be images; `store.from_arrays` refuses the others."""
    return [(image.shape[0], image.shape[1]) for image in arrays if image.ndim in (2, 3) and image.size]


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


def common_size(images: Images) -> Size | None:
    """Height and width of images that are arrays of one size; None for all others."""
    arrays = [] if isinstance(images, str | Path) else [one for one in images if isinstance(one, np.ndarray)]
    sizes = {one.shape[:2] for one in arrays}
    return sizes.pop() if len(sizes) == 1 else None


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


def no_readable(images: Sequence[str | Path], outcomes: Sequence[FileOutcome]) -> str:
    where = printable(Path(images[0])) if len(images) == 1 else f"what was given ({len(images)} paths)"
    if len(images) == 1 and not Path(images[0]).is_dir():
        return f"{where} cannot be read ({outcomes[0].reason}); give an image or a folder of them"
    return f"{where} has no readable image; `normscope doctor FOLDER` lists why each file was skipped"
