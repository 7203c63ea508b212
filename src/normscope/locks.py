"""Locks on files: the system drops them when the process ends, however. Windows has none of this kind."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from normscope.errors import NormscopeError
from normscope.files import check_regular, errors_naming, followed


def lock(file: BinaryIO, *, wait: bool = True) -> None:
    """Until the file is closed. Without `wait`, raises BlockingIOError if another process has the lock."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


class Held(NamedTuple):
    """A lock on a file that is there for it alone."""

    path: Path
    file: BinaryIO

    def release(self) -> None:
        if sys.platform == "win32":  # where an open file cannot be removed, and locks nothing
            self.file.close()
            self.path.unlink()
        else:
            self.path.unlink()
            self.file.close()


def hold(path: Path) -> Held | None:
    """None if another process holds it."""
    while True:
        file = path.open("ab")
        try:
            lock(file, wait=False)
        except BlockingIOError:
            file.close()
            return None
        if os.fstat(file.fileno()).st_nlink:
            return Held(path, file)
        file.close()  # released, and thus removed, after it was opened here: it locks nothing any more


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Inside, no other process that asks for it writes to `path`; raises if one does already, or a device is there."""
    with errors_naming(path):
        check_regular(path)
    path = followed(path)
    held = hold(path.with_name(f".{path.name}.lock"))
    if held is None:
        raise NormscopeError(f"another process is writing {path}; wait until it is done, or give another name")
    try:
        yield
    finally:
        held.release()
