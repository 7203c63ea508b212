"""Lists the image files in a folder, sorted; a file that cannot be an image is an error that names it."""

import os
from pathlib import Path

from normscope.errors import DatasetError
from normscope.images.folder import SUFFIXES
from normscope.images.notation import printable


def images_in(folder: Path) -> list[Path]:
    """The images directly in `folder`, sorted by name, at least one; hidden files and other kinds are left out."""
    found = [entry for entry in _entries(folder) if Path(entry.name).suffix.lower() in SUFFIXES]
    if not found:
        raise DatasetError(f"{printable(folder)} has no image; expected files such as 000.png in it")
    for entry in found:
        _check(entry)
    return [folder / entry.name for entry in found]


def folders_in(folder: Path) -> list[Path]:
    """The folders directly in `folder`, sorted by name; hidden ones are left out."""
    return [folder / entry.name for entry in _entries(folder) if entry.is_dir()]


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    """Sorted, without hidden ones. scandir is faster than iterdir, and ImageNet has more than a million files."""
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
    except FileNotFoundError:
        raise DatasetError(f"{printable(folder)} is missing; expected a folder there") from None
    except OSError as error:
        raise DatasetError(f"{printable(folder)} cannot be read ({error.strerror}); expected a folder there") from error
    return sorted(shown, key=lambda entry: entry.name)


def _check(entry: "os.DirEntry[str]") -> None:
    if not entry.is_file():
        raise DatasetError(f"{printable(entry.path)} is not a regular file; expected an image")
    if entry.stat().st_size == 0:
        raise DatasetError(f"{printable(entry.path)} is empty (0 bytes); expected an image")


def size_of(image: Path) -> int:
    try:
        return image.stat().st_size
    except OSError as error:
        raise DatasetError(f"{printable(image)} cannot be looked at ({error.strerror}); expected an image") from error
