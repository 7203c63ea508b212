"""What a folder holds before anything is learnt from it: `normscope doctor`."""

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from normscope.errors import ImageError
from normscope.images.decoding import decode_file
from normscope.images.folder import check_folder, scan
from normscope.images.notation import printable
from normscope.images.outcome import FileOutcome, Kind
from normscope.images.outcomes import Outcomes
from normscope.images.outliers import THRESHOLD, outlier_scores
from normscope.images.reader import Picture, Pixels, resize
from normscope.images.thumbnails import Thumbnails

__all__ = ["Outlier", "Report", "examine", "to_json"]

THUMBNAIL = (16, 16)
DIGEST = 16  # bytes: that two of a billion images share one by chance has probability 10⁻²¹


@dataclass(frozen=True)
class Outlier:
    path: str
    score: float  # robust standard deviations above the median distance to the nearest neighbours


@dataclass(frozen=True)
class Report:
    """Paths that are strings are in the notation of `printable`."""

    folder: str
    readable: int
    skipped: tuple[FileOutcome, ...]  # ignored: nobody takes them for images
    unreadable: tuple[FileOutcome, ...]
    sizes: dict[str, int]  # "640 x 480" (width, height) → how many, most frequent first, as for the next two
    formats: dict[str, int]
    modes: dict[str, int]
    grey: int
    colour: int
    flat: tuple[str, ...]  # of a single colour
    dim: tuple[str, ...]  # 16 bits that use at most the low 14, so that they come out dark or black
    animated: tuple[str, ...]  # of which only the first frame or page is used
    duplicates: tuple[tuple[str, ...], ...]  # groups with exactly the same pixels
    outliers: tuple[Outlier, ...]  # unlike the other images, worst first


def examine(folder: Path, *, progress: Callable[[int, int], None] | None = None) -> Report:
    """Decodes every image of a folder once, one at a time; `progress` is told how many of how many are done."""
    check_folder(folder)
    found = scan(folder)
    with closing(Thumbnails(THUMBNAIL)) as thumbnails:
        tally = _Tally(found, thumbnails)
        unreadable = _decoded(found, tally, progress)
        return _report(folder, tally, unreadable)


def _decoded(found: Outcomes, tally: "_Tally", progress: Callable[[int, int], None] | None) -> list[FileOutcome]:
    """Adds every image to the tally; what cannot be read, in order."""
    images, done, unreadable = sum(one.kind is Kind.IMAGE for one in found), 0, list[FileOutcome]()
    for position, one in enumerate(found):
        if one.kind is Kind.UNREADABLE:
            unreadable.append(one)
        if one.kind is not Kind.IMAGE:
            continue
        try:
            tally.add(position, decode_file(one.path))
        except ImageError as error:
            unreadable.append(FileOutcome(one.path, Kind.UNREADABLE, str(error)))
        done += 1
        if progress is not None:
            progress(done, images)
    return unreadable


def _report(folder: Path, tally: "_Tally", unreadable: list[FileOutcome]) -> Report:
    duplicates = tuple(tuple(map(tally.path, group)) for group in _equal(tally.digests))
    tally.digests.clear()  # outliers need as much memory
    return Report(
        folder=printable(folder),
        readable=len(tally.positions),
        skipped=tuple(one for one in tally.found if one.kind is Kind.IGNORED),
        unreadable=tuple(unreadable),
        sizes=dict(tally.sizes.most_common()),
        formats=dict(tally.formats.most_common()),
        modes=dict(tally.modes.most_common()),
        grey=tally.grey,
        colour=len(tally.positions) - tally.grey,
        flat=tuple(tally.flat),
        dim=tuple(tally.dim),
        animated=tuple(tally.animated),
        duplicates=duplicates,
        outliers=tuple(Outlier(tally.path(image), score) for image, score in _outliers(tally.thumbnails)),
    )


def to_json(report: Report) -> dict[str, object]:
    """The report as JSON can hold it."""
    lists = {"skipped": report.skipped, "unreadable": report.unreadable}
    return asdict(report) | {
        name: [{"path": printable(one.path), "reason": one.reason} for one in outcomes]
        for name, outcomes in lists.items()
    }


@dataclass
class _Tally:
    """What is kept of each picture: its position among the files found, a hash and a thumbnail, not its pixels."""

    found: Outcomes
    thumbnails: Thumbnails
    positions: "array[int]" = field(default_factory=lambda: array("I"))
    digests: bytearray = field(default_factory=bytearray)  # one after the other
    sizes: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    grey: int = 0
    flat: list[str] = field(default_factory=list)
    dim: list[str] = field(default_factory=list)
    animated: list[str] = field(default_factory=list)

    def path(self, image: int) -> str:
        return printable(self.found.path(self.positions[image]))

    def add(self, position: int, picture: Picture) -> None:
        pixels = picture.pixels
        height, width = picture.shape
        self.positions.append(position)
        self.thumbnails.append(resize(pixels, THUMBNAIL))
        self.digests += _digest(pixels)
        self.sizes[f"{width} x {height}"] += 1
        self.formats[picture.format] += 1
        self.modes[picture.mode] += 1
        self.grey += bool((pixels == pixels[:, :, :1]).all())
        if (pixels == pixels[0, 0]).all():
            self.flat.append(self.path(-1))
        if picture.mode.startswith("I") and pixels.max() <= 64:  # 2¹⁴ of 2¹⁶ is 64 of 256
            self.dim.append(self.path(-1))
        if picture.animated:
            self.animated.append(self.path(-1))


def _digest(pixels: Pixels) -> bytes:
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=DIGEST)
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.digest()


def _equal(digests: bytearray) -> list[list[int]]:
    """Groups of images whose digests are the same, in order."""
    every = np.frombuffer(digests, f"S{DIGEST}") if digests else np.empty(0, "S1")
    order = np.argsort(every, kind="stable")
    ordered = every[order]
    groups: dict[bytes, list[int]] = {}
    for place in np.flatnonzero(ordered[1:] == ordered[:-1]):
        groups.setdefault(ordered[place], [int(order[place])]).append(int(order[place + 1]))
    return sorted(groups.values())


def _outliers(thumbnails: Thumbnails) -> list[tuple[int, float]]:
    """Images and their scores, the worst first."""
    scores = outlier_scores(thumbnails)
    above = np.flatnonzero(scores > THRESHOLD)
    worst = above[np.argsort(-scores[above], kind="stable")]
    return [(int(image), round(float(scores[image]), 2)) for image in worst]
