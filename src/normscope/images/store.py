"""Images decoded once into uint8, in memory or in a temporary file when they would not fit."""

import hashlib
import math
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from normscope.errors import ImageError, ImageFolderError
from normscope.images.decoding import decode_file
from normscope.images.outcome import FileOutcome, Kind
from normscope.images.reader import MAX_PIXELS, Picture, Pixels, resize
from normscope.images.size import Size

__all__ = ["Store", "from_arrays", "from_paths", "in_batches"]

Indices = int | slice | Sequence[int] | npt.NDArray[np.integer] | npt.NDArray[np.bool_]

BLOCK = 64  # images looked at together where all are
THREADS = 2
AHEAD = 8  # files that may be decoded before the ones in front of them are stored


class Store:
    """Images of one size in a fixed order, [n, 3, h, w]; made by `from_paths` and `from_arrays`."""

    def __init__(
        self, pixels: Pixels, rows: npt.NDArray[np.intp], shapes: tuple[Size, ...], paths: tuple[Path, ...] | None
    ) -> None:
        self._pixels = pixels  # shared by a store and its subsets
        self._rows = rows  # which of them are this store's
        self.shapes = shapes  # of each image before it was resized
        self.paths = paths  # one for each image, or None

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, indices: Indices) -> Pixels:
        """A fresh copy, [n, 3, h, w]; a single index gives n = 1."""
        return self._pixels[self._rows[_normalised(indices)]]

    def subset(self, indices: Indices) -> "Store":
        """These images in this order, sharing the pixels; all its properties are those of a store of its own."""
        indices = _normalised(indices)
        chosen = np.arange(len(self))[indices]
        paths = None if self.paths is None else tuple(self.paths[index] for index in chosen)
        return Store(self._pixels, self._rows[indices], tuple(self.shapes[index] for index in chosen), paths)

    @property
    def size(self) -> Size:
        height, width = self._pixels.shape[2:]
        return height, width

    @cached_property
    def sha256(self) -> str:
        """The fingerprint of the images and their order, whatever file or store they came from."""
        digest = hashlib.sha256(repr((len(self), 3, *self.size)).encode())
        for block in self._blocks():
            digest.update(block.data)
        return digest.hexdigest()

    @cached_property
    def grey(self) -> bool:
        """Whether the channels of every image are equal."""
        return all(bool((block == block[:, :1]).all()) for block in self._blocks())

    def _blocks(self) -> Iterator[Pixels]:
        for start in range(0, len(self), BLOCK):
            yield self[start : start + BLOCK]


def from_paths(
    paths: Sequence[Path],
    size: Size,
    *,
    memory_limit: int = 2 * 2**30,
    max_pixels: int = MAX_PIXELS,
    scratch: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Store, list[FileOutcome]]:
    """Decodes and resizes every file: the images in order, and what became of each path, position by position.

    Pixels of more than `memory_limit` bytes go to a nameless file in `scratch` (the system's temporary folder if not
    given), which is gone when the store is. `progress` is told how many of how many files are done.
    """
    room = _room(len(paths), size, memory_limit, scratch)
    return _stored(_decoded(paths, size, max_pixels, AHEAD), room, progress)


def in_batches(
    paths: Iterable[Path], size: Size, together: int, *, max_pixels: int = MAX_PIXELS
) -> Iterator[tuple[Store, list[FileOutcome]]]:
    """As `from_paths`, so many files at a time; while the caller works on a batch, the next one is decoded."""
    decoded = _decoded(paths, size, max_pixels, together)
    for first in decoded:
        some = chain([first], islice(decoded, together - 1))
        yield _stored(some, np.empty((together, 3, *size), np.uint8))


def _stored(
    decoded: Iterable[tuple[Path, Picture | str]], pixels: Pixels, progress: Callable[[int, int], None] | None = None
) -> tuple[Store, list[FileOutcome]]:
    """What was decoded, put into `pixels`, which has room for it."""
    readable: list[Path] = []
    outcomes: list[FileOutcome] = []
    for path, result in decoded:
        if isinstance(result, str):
            outcomes.append(FileOutcome(path, Kind.UNREADABLE, result))
        else:
            outcomes.append(FileOutcome(path, shape=result.shape))
            pixels[len(readable)] = result.pixels.transpose(2, 0, 1)
            readable.append(path)
        if progress is not None:
            progress(len(outcomes), len(pixels))
    shapes = tuple(one.shape for one in outcomes if one.shape)
    return Store(pixels, np.arange(len(readable)), shapes, tuple(readable)), outcomes


def from_arrays(images: Pixels | Sequence[Pixels], size: Size) -> Store:
    """A store of uint8 arrays: [n, h, w], [n, h, w, 1] or [n, h, w, 3], or a list of single images of any sizes."""
    pixels = np.empty((len(images), 3, *size), np.uint8)
    shapes: list[Size] = []
    for index, image in enumerate(images):
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
            raise ImageFolderError(f"image {index} is {_what(image)}; give uint8 values from 0 to 255")
        if image.ndim == 2:
            image = image[:, :, None]
        if image.ndim != 3 or image.shape[2] not in (1, 3) or 0 in image.shape:
            raise ImageFolderError(f"image {index} is {_what(image)}; give [h, w], [h, w, 1] or [h, w, 3] for each")
        height, width, _ = image.shape
        shapes.append((height, width))
        colour = np.ascontiguousarray(np.broadcast_to(image, (height, width, 3)))
        pixels[index] = resize(colour, size).transpose(2, 0, 1)
    return Store(pixels, np.arange(len(pixels)), tuple(shapes), None)


def _normalised(indices: Indices) -> slice | npt.NDArray[np.integer] | npt.NDArray[np.bool_]:
    if isinstance(indices, slice):
        return indices
    array = np.atleast_1d(np.asarray(indices))
    return array if array.size else array.astype(np.intp)  # an empty list has no integers to go by


def _what(image: object) -> str:
    if isinstance(image, np.ndarray):
        return f"an array of {image.dtype} {list(image.shape)}"
    return f"a {type(image).__name__}"


def _room(n: int, size: Size, memory_limit: int, scratch: Path | None) -> Pixels:
    """Space for n images: memory, or a mapped file that has no name and whose space is reserved."""
    shape = (n, 3, *size)
    needed = math.prod(shape)
    if needed <= memory_limit:
        return np.empty(shape, np.uint8)
    try:
        with tempfile.TemporaryFile(dir=scratch) as file:
            if hasattr(os, "posix_fallocate"):  # a full disk would otherwise end the process while writing
                os.posix_fallocate(file.fileno(), 0, needed)
            return np.asarray(np.memmap(file, np.uint8, "w+", shape=shape))
    except OSError as error:
        where = scratch or tempfile.gettempdir()
        raise ImageFolderError(
            f"{n} images of {size[0]} x {size[1]} need {needed / 2**20:.0f} MB in {where} ({error.strerror}); "
            "make room there, give another folder, or raise the memory limit"
        ) from error


def _decoded(paths: Iterable[Path], size: Size, max_pixels: int, ahead: int) -> Iterator[tuple[Path, Picture | str]]:
    """Each path with its image at this size or the reason why there is none, in order; so many are decoded ahead."""
    waiting: deque[tuple[Path, Future[Picture | str]]] = deque()

    def oldest() -> tuple[Path, Picture | str]:
        path, future = waiting.popleft()
        return path, future.result()

    with ThreadPoolExecutor(THREADS) as pool:
        try:
            for path in paths:
                waiting.append((path, pool.submit(_decode, path, size, max_pixels)))
                if len(waiting) > ahead:
                    yield oldest()
            while waiting:
                yield oldest()
        finally:
            pool.shutdown(cancel_futures=True)


def _decode(path: Path, size: Size, max_pixels: int) -> Picture | str:
    try:
        return decode_file(path, size, max_pixels=max_pixels)
    except ImageError as error:
        return str(error)  # the error itself would keep the half-decoded image alive
