"""Files to be written, looked at before minutes of work, not after them."""

import os
from pathlib import Path

from normscope.errors import NormscopeError
from normscope.files import is_stream


def check_writable(path: Path) -> None:
    if is_stream(path):
        return
    folder = path.absolute().parent
    if path.is_dir():
        raise NormscopeError(f"{path} is a folder; give the name of a file to write")
    if not folder.is_dir():
        raise NormscopeError(f"{folder} does not exist; create it or write elsewhere")
    if not os.access(folder, os.W_OK):
        raise NormscopeError(f"{folder} is not writable; write elsewhere")


def check_replaceable(path: Path, force: bool) -> None:
    """What exists is replaced only if the user said so."""
    if path.is_file() and not force:
        raise NormscopeError(f"{path} exists; give another name, or replace it with --force")
