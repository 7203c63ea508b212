"""Finds the images in a folder, with a reason for everything that is none; nothing is decoded here."""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from normscope.errors import ImageFolderError
from normscope.images.notation import printable
from normscope.images.outcome import FileOutcome, Kind, reason_of
from normscope.images.outcomes import Outcomes

__all__ = ["SUFFIXES", "check_folder", "check_path", "obstacle", "scan"]

SUFFIXES = (  # the usual names of reader.FORMATS
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".tif", ".tiff"),
    *(".webp", ".gif", ".ppm", ".pgm", ".pbm", ".pnm"),
)
MISSING = "does not exist"


def scan(path: Path) -> Outcomes:
    """A file as it is, or everything in a folder and the folders below it, sorted by path. Nothing raises here.

    Links are followed. Each real folder is entered once, by its own name rather than by a link where it has both. A
    hidden or unreadable folder is one entry. Whether a file can be decoded is not known yet.
    """
    if reason := obstacle(path):
        return Outcomes([FileOutcome(path, Kind.UNREADABLE, reason)])
    return Outcomes(_walk(path) if path.is_dir() else [FileOutcome(path)])


def obstacle(path: Path) -> str | None:
    """Why nothing can be told of a path: it is missing, too long, a folder that may not be read ..."""
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            with os.scandir(path):
                pass
    except FileNotFoundError:
        return MISSING
    except (OSError, ValueError) as error:
        return f"cannot be read ({reason_of(error)})"
    return None


def check_path(path: Path) -> None:
    """For a path without which there is nothing to do."""
    if reason := obstacle(path):
        advice = "check the spelling of the folder" if reason == MISSING else "check the folder and who may read it"
        raise ImageFolderError(f"{printable(path)} {reason}; {advice}")


def check_folder(path: Path) -> None:
    check_path(path)
    if not path.is_dir():
        raise ImageFolderError(f"{printable(path)} is a file, not a folder; give the folder that holds the images")


def _walk(root: Path) -> Iterator[FileOutcome]:
    """Every entry below `root` but the folders entered, sorted by path; the names in one branch are in memory."""
    entrances = _entrances(root)
    branch = [iter([root])]  # of each folder on the way down, the entries that are left
    while branch:
        for entry in branch[-1]:
            outcome = _outcome(entry) if len(branch) > 1 else None
            found = outcome or _entered(entry, entrances)
            if not isinstance(found, FileOutcome):
                branch.append(found)
                break
            yield found
        else:
            branch.pop()


def _entrances(root: Path) -> dict[tuple[int, int], str]:
    """By which path each real folder is entered: by a link only where nothing else leads to it."""
    folders, links = [root], deque[Path]()
    entrances: dict[tuple[int, int], str] = {}
    while folders or links:
        folder = folders.pop() if folders else links.popleft()
        with suppress(OSError):  # to be met again, and told of, by `_entered`
            if (identity := _identity(folder)) in entrances:
                continue
            below = _folders_in(folder)
            entrances[identity] = str(folder)
            for entry in below:
                (links if entry.is_symlink() else folders).append(entry)
    return entrances


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _folders_in(folder: Path) -> list[Path]:
    with os.scandir(folder) as entries:
        return sorted(folder / one.name for one in entries if not one.name.startswith(".") and _is_folder(one))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, or into what may not be looked at
        return False


def _entered(folder: Path, entrances: dict[tuple[int, int], str]) -> Iterator[Path] | FileOutcome:
    """What is in a folder, sorted; or why it is not looked through."""
    try:
        identity, names = _identity(folder), sorted(one.name for one in folder.iterdir())
    except OSError as error:
        return FileOutcome(folder, Kind.UNREADABLE, f"folder cannot be read: {reason_of(error)}")
    if entrances.setdefault(identity, str(folder)) != str(folder):
        return FileOutcome(folder, Kind.IGNORED, "link to a folder that was already looked through")
    return map(folder.joinpath, names)


def _outcome(entry: Path) -> FileOutcome | None:
    """What an entry of a folder is as far as it can be told without opening it; None for a folder to look through."""
    if entry.name.startswith("."):
        return FileOutcome(entry, Kind.IGNORED, "hidden")
    try:
        status = entry.stat()
    except OSError as error:
        known = {errno.ENOENT: "broken link", errno.ELOOP: "link to itself"}
        reason = known.get(error.errno or 0, f"cannot be looked at: {reason_of(error)}")
        return FileOutcome(entry, Kind.UNREADABLE, reason)
    if stat.S_ISDIR(status.st_mode):
        return None
    if entry.suffix.lower() not in SUFFIXES:
        suffix = printable(entry.suffix) or "no suffix"
        return FileOutcome(entry, Kind.IGNORED, f"not an image by its name ({suffix})")
    if not stat.S_ISREG(status.st_mode):
        return FileOutcome(entry, Kind.UNREADABLE, "not a regular file")
    if status.st_size == 0:
        return FileOutcome(entry, Kind.UNREADABLE, "empty file (0 bytes)")
    return FileOutcome(entry)
