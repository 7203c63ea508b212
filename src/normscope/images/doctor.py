"""What a folder holds before anything is learnt from it: `normscope doctor`."""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from normscope.errors import ImageError
from normscope.images.decoding import decode_file
from normscope.images.folder import check_folder, scan
from normscope.images.notation import printable
from normscope.images.outcome import FileOutcome, Kind
from normscope.images.outliers import THRESHOLD, outlier_scores
from normscope.images.reader import Picture, Pixels, resize

__all__ = ["Outlier", "Report", "examine", "to_json"]

THUMBNAIL = (16, 16)


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
    images = [one.path for one in found if one.kind is Kind.IMAGE]
    unreadable = [one for one in found if one.kind is Kind.UNREADABLE]
    tally = _Tally()
    for done, path in enumerate(images, start=1):
        try:
            tally.add(printable(path), decode_file(path))
        except ImageError as error:
            unreadable.append(FileOutcome(path, Kind.UNREADABLE, str(error)))
        if progress is not None:
            progress(done, len(images))
    return Report(
        folder=printable(folder),
        readable=len(tally.paths),
        skipped=tuple(one for one in found if one.kind is Kind.IGNORED),
        unreadable=tuple(sorted(unreadable, key=lambda one: one.path)),
        sizes=dict(tally.sizes.most_common()),
        formats=dict(tally.formats.most_common()),
        modes=dict(tally.modes.most_common()),
        grey=tally.grey,
        colour=len(tally.paths) - tally.grey,
        flat=tuple(tally.flat),
        dim=tuple(tally.dim),
        animated=tuple(tally.animated),
        duplicates=tuple(tuple(group) for group in tally.same.values() if len(group) > 1),
        outliers=_outliers(tally.paths, tally.thumbnails),
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
    """What is kept of each picture: its name, a hash and a thumbnail, not its pixels."""

    paths: list[str] = field(default_factory=list)
    thumbnails: list[Pixels] = field(default_factory=list)
    sizes: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    grey: int = 0
    flat: list[str] = field(default_factory=list)
    dim: list[str] = field(default_factory=list)
    animated: list[str] = field(default_factory=list)
    same: dict[bytes, list[str]] = field(default_factory=dict)

    def add(self, path: str, picture: Picture) -> None:
        pixels = picture.pixels
        height, width = picture.shape
        self.paths.append(path)
        self.thumbnails.append(resize(pixels, THUMBNAIL))
        self.sizes[f"{width} x {height}"] += 1
        self.formats[picture.format] += 1
        self.modes[picture.mode] += 1
        self.grey += bool((pixels == pixels[:, :, :1]).all())
        self.same.setdefault(_digest(pixels), []).append(path)
        if (pixels == pixels[0, 0]).all():
            self.flat.append(path)
        if picture.mode.startswith("I") and pixels.max() <= 64:  # 2¹⁴ of 2¹⁶ is 64 of 256
            self.dim.append(path)
        if picture.animated:
            self.animated.append(path)


def _digest(pixels: Pixels) -> bytes:
    digest = hashlib.sha256(repr(pixels.shape).encode())
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.digest()


def _outliers(paths: list[str], thumbnails: list[Pixels]) -> tuple[Outlier, ...]:
    if not paths:
        return ()
    scores = outlier_scores(np.stack(thumbnails))
    worst = np.argsort(-scores, kind="stable")
    return tuple(Outlier(paths[index], round(float(scores[index]), 2)) for index in worst if scores[index] > THRESHOLD)
