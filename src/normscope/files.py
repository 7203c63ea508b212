"""Files that are written whole or not at all."""

import errno
import glob
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

Writer = Callable[[BinaryIO], object]


def write_atomically(path: Path, data: bytes | Writer, *, keep_previous: bool = False) -> None:
    """Put `data` at `path`, so that a reader or a power cut meets the old file or the new one, never a part of one.

    A link at `path` stays, and the file it leads to is replaced; owner and permissions of that file are kept. What is
    there and no regular file is left alone: an OSError. Every OSError names `path`.

    With `keep_previous` the file that was there stays as `previous(path)`. The order is: the new bytes are safe in a
    temporary file; the old file gets a second name; the new file takes `path`; only then does the old one become
    `previous(path)`. So `path` never vanishes, and an older intact `previous(path)` outlives a damaged `path` until
    the new file is in place.
    """
    with errors_naming(path):
        check_regular(path)
        replace(followed(path), data, keep_previous)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 atomically, or straight into a character device, a FIFO or an open descriptor such as /dev/stdout."""
    write_lines(path, [text])


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """As `write_text`, of texts that are made one after the other."""

    def write(file: BinaryIO) -> None:
        file.writelines(line.encode() for line in lines)

    if not is_stream(path):
        write_atomically(path, write)
        return
    with errors_naming(path), path.open("ab") as file:  # what stdout was redirected to may have lines already
        write(file)


def previous(path: Path) -> Path:
    """Where `write_atomically` keeps the file that was at `path` before: model.x → model.x.previous."""
    path = followed(path)
    return path.with_name(path.name + ".previous")


def leftovers(path: Path) -> list[Path]:
    """What a process that was killed while writing `path` left beside it."""
    path = followed(path)
    return list(path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.tmp"))


def followed(path: Path) -> Path:
    """Where a link leads to in the end; any other path leads to itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def is_stream(path: Path) -> bool:
    """Whether `path` is written into rather than replaced."""
    if not path.exists():
        return False
    mode = path.stat().st_mode
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or (stat.S_ISREG(mode) and is_descriptor(path))


def is_descriptor(path: Path) -> bool:
    """Whether links lead from `path` to an open file in /proc, as from /dev/stdout: the shell's, not to be replaced."""
    while path.is_symlink():
        if os.path.realpath(path.parent).startswith("/proc/"):
            return True
        path = path.parent / path.readlink()
    return False


def check_regular(path: Path) -> None:
    """Raise if something other than a regular file is at `path`, or at the end of links that begin there."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file")


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """An OSError of the system names `path`, not a temporary file or nothing, as that of a full disk does."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename, error.filename2 = str(path), None
        raise


def replace(path: Path, data: bytes | Writer, keep_previous: bool) -> None:
    new, old = beside(path), beside(path)
    try:
        with new.open("xb") as file:
            keep_permissions(path, new)
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


def beside(path: Path) -> Path:
    """An unused hidden name in the same folder, thus on the same disk, where a rename is atomic."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def keep_permissions(old: Path, new: Path) -> None:
    """Give `new` the owner and the permissions of `old`, if there is one, as far as we and the disk can."""
    if old.exists():
        state = old.stat()
        if hasattr(os, "chown"):
            with suppress(PermissionError):
                os.chown(new, state.st_uid, state.st_gid)
        with suppress(PermissionError):
            new.chmod(stat.S_IMODE(state.st_mode))


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
