"""Files that are written whole or not at all."""

import glob
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

Writer = Callable[[BinaryIO], object]


def write_atomically(path: Path, data: bytes | Writer, *, keep_previous: bool = False) -> None:
    """Put `data` at `path`, so that a reader or a power cut meets the old file or the new one, never a part of one.

    With `keep_previous` the file that was there stays as `previous(path)`. The order is: the new bytes are safe in a
    temporary file; the old file gets a second name; the new file takes `path`; only then does the old one become
    `previous(path)`. So `path` never vanishes, and an older intact `previous(path)` outlives a damaged `path` until
    the new file is in place. A link at `path` is replaced, not followed.
    """
    new, old = beside(path), beside(path)
    try:
        with new.open("xb") as file:
            file.write(data) if isinstance(data, bytes) else data(file)
            file.flush()
            os.fsync(file.fileno())
        if keep_previous:
            name_again(path, old)
        new.replace(path)
        sync_folder(path.parent)
        if old.exists():
            old.replace(previous(path))
            sync_folder(path.parent)
    finally:
        # Also after success: renaming one hard link onto another of the same file leaves both names.
        new.unlink(missing_ok=True)
        old.unlink(missing_ok=True)


def previous(path: Path) -> Path:
    """Where `write_atomically` keeps the file that was at `path` before: model.x → model.x.previous."""
    return path.with_name(path.name + ".previous")


def beside(path: Path) -> Path:
    """An unused hidden name in the same folder, thus on the same disk, where a rename is atomic."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def leftovers(path: Path) -> list[Path]:
    """What a process that was killed while writing `path` left beside it."""
    return list(path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.tmp"))


def name_again(path: Path, second: Path) -> None:
    """Give the file at `path`, if there is one, a second name."""
    if not path.is_file():
        return
    try:
        second.hardlink_to(path)
    except OSError:
        # A disk without hard links, such as a USB stick: for a moment only the previous file is there.
        path.replace(previous(path))


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut; Windows cannot open folders and needs no such thing."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
