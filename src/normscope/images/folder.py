"""Finds the images in a folder and gives a reason for everything it leaves out; nothing is decoded here."""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from normscope.errors import ImageFolderError

__all__ = ["SUFFIXES", "Scan", "Skipped", "printable", "scan"]

SUFFIXES = (  # the usual names of reader.FORMATS
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".tif", ".tiff"),
    *(".webp", ".gif", ".ppm", ".pgm", ".pbm", ".pnm"),
)


@dataclass(frozen=True)
class Skipped:
    path: Path
    reason: str


@dataclass(frozen=True)
class Scan:
    """Everything below a folder, sorted by path: each file is either an image or was skipped for a reason."""

    images: tuple[Path, ...]
    skipped: tuple[Skipped, ...]


def scan(folder: Path) -> Scan:
    """Looks through a folder and all folders below it.

    Links are followed. Each real folder is entered once, by its own name rather than by a link where it has both. A
    hidden or unreadable folder is one skipped entry. Whether a file can be decoded is not known yet.
    """
    images: list[Path] = []
    skipped: list[Skipped] = []
    for path, reason in _walk(_root(folder)):
        if reason:
            skipped.append(Skipped(path, reason))
        else:
            images.append(path)
    return Scan(tuple(sorted(images)), tuple(sorted(skipped, key=lambda one: one.path)))


FOLDER = "folder"


def _walk(root: Path) -> Iterator[tuple[Path, str]]:
    """Every entry below `root` but the folders entered, with the reason to skip it; an image has an empty reason."""
    folders, links = [root], deque[Path]()
    entered: set[tuple[int, int]] = set()
    while folders or links:
        folder = folders.pop() if folders else links.popleft()
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in entered:
                yield folder, "link to a folder that was already looked through"
                continue
            entries = sorted(folder.iterdir())
        except OSError as error:
            yield folder, f"folder cannot be read: {error.strerror}"
            continue
        entered.add((status.st_dev, status.st_ino))
        for entry in entries:
            reason = _reason(entry)
            if reason != FOLDER:
                yield entry, reason
            elif entry.is_symlink():
                links.append(entry)
            else:
                folders.append(entry)


def _reason(entry: Path) -> str:
    """Why not to take this entry: FOLDER for one to look through, empty for an image."""
    if entry.name.startswith("."):
        return "hidden"
    try:
        status = entry.stat()
    except OSError as error:
        known = {errno.ENOENT: "broken link", errno.ELOOP: "link to itself"}
        return known.get(error.errno or 0, f"cannot be looked at: {error.strerror}")
    if stat.S_ISDIR(status.st_mode):
        return FOLDER
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    if entry.suffix.lower() not in SUFFIXES:
        return f"not an image by its name ({printable(entry.suffix) or 'no suffix'})"
    return "" if status.st_size else "empty file (0 bytes)"


def _root(folder: Path) -> Path:
    name = printable(folder)
    try:
        if stat.S_ISDIR(folder.stat().st_mode):
            with os.scandir(folder):
                return folder
    except FileNotFoundError:
        raise ImageFolderError(f"{name} does not exist; check the spelling of the folder") from None
    except OSError as error:
        raise ImageFolderError(
            f"{name} cannot be read ({error.strerror}); check the folder and who may read it"
        ) from error
    except ValueError as error:  # a null character
        raise ImageFolderError(f"{name} is not a possible folder name ({error}); check its spelling") from error
    raise ImageFolderError(f"{name} is a file, not a folder; give the folder that holds the images")


def printable(path: Path | str) -> str:
    """The path on one line that any terminal or JSON file takes.

    Line breaks, control characters and bytes that are not UTF-8 are written as escapes.
    """
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in str(path))
