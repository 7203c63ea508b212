"""Downloads published files: continued where they were cut, checked, and in place only once they are whole.

Not by pooch, which begins a download that was cut from the start again and takes however many bytes a server sends.
"""

import hashlib
import http.client
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from normscope.datasets.archive import unpack
from normscope.datasets.published import LARGEST, Download, Published, data_folder, missing, read_published
from normscope.errors import DatasetError
from normscope.files import sync_folder

TRIES = 4
PAUSE = 1.0  # seconds before the second try, doubled before each further one
SILENCE = 30.0  # seconds without a byte after which a connection counts as dropped
BLOCK = 2**16
NOTHING_LEFT = 416  # the answer to a range that begins at the end of the file

# Called with the url, the number of bytes that have arrived, and that of all bytes if the server says so.
DownloadCallback = Callable[[str, int, int | None], None]


def fetch(source: Published, root: Path | None = None, callback: DownloadCallback | None = None) -> Path | None:
    """Download what is missing or damaged of a data set; returns its folder, or None if it has no files."""
    if not source.files:
        return None
    folder = data_folder(root, source.folder)
    if not source.downloads:
        if missing(source, root):
            raise DatasetError(f"{source.name} has to be put into {folder} by hand: {source.by_hand}")
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for download in source.downloads:
            if not all(_intact(folder / file, source) for file in download.files):
                _get(download, folder, callback or _silent)
                for file in download.files:
                    read_published(folder / file, source)
    except OSError as error:
        raise DatasetError(
            f"{error.filename or folder}: {error.strerror or error}; {folder} has to be writable"
        ) from error
    return folder


def _silent(url: str, done: int, total: int | None) -> None:
    pass


def _intact(path: Path, source: Published) -> bool:
    try:
        return bool(read_published(path, source))
    except DatasetError:
        return False


def _get(download: Download, folder: Path, callback: DownloadCallback) -> None:
    """Download unless it is there already; a .tar.gz is then unpacked and deleted, a .gz is kept."""
    path = folder / PurePosixPath(download.url).name
    if not path.is_file() or _md5(path) != download.md5:
        _download(download, path, callback)
    if path.name.endswith(".tar.gz"):
        unpack(path, folder, download.files)
        path.unlink()


def _download(download: Download, path: Path, callback: DownloadCallback) -> None:
    part = path.with_name(path.name + ".part")
    continued = part.exists()
    _transfer(download.url, part, callback)
    if continued and _md5(part) != download.md5:  # `part` was left over from another file
        part.unlink()
        _transfer(download.url, part, callback)
    actual, size = _md5(part), part.stat().st_size
    if actual != download.md5:
        part.unlink()
        raise DatasetError(
            f"{download.url} gave {size} bytes with MD5 {actual}, expected MD5 {download.md5}; try again later, or get "
            f"the file elsewhere and put it at {path}"
        )
    with part.open("rb") as file:
        os.fsync(file.fileno())
    part.replace(path)
    sync_folder(path.parent)


def _transfer(url: str, part: Path, callback: DownloadCallback) -> None:
    """Download into `part`, with retries; each continues where the connection was lost."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            _receive(url, part, callback)
            return
        except HTTPError as error:
            error.close()
            if error.code == NOTHING_LEFT and part.exists():
                return
            reason = f"the server says {error.code} {error.reason}"
            if error.code < 500:
                break
        except (OSError, http.client.HTTPException) as error:
            reason = str(getattr(error, "reason", error)) or type(error).__name__
    raise DatasetError(f"{url} cannot be downloaded ({reason}); try again, what has arrived so far is kept")


def _receive(url: str, part: Path, callback: DownloadCallback) -> None:
    """Continue `part` over one connection; raises if that ends before the file is complete."""
    have = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    answer: HTTPResponse
    with urlopen(request, timeout=SILENCE) as answer:
        have = have if answer.status == http.client.PARTIAL_CONTENT else 0  # else the server sends all of it again
        total = None if answer.length is None else have + answer.length
        _check_size(url, part, total or 0)
        with _on_disk(part, "ab" if have else "wb") as write:
            while block := answer.read1(BLOCK):
                write(block)
                have += len(block)
                _check_size(url, part, have)
                callback(url, have, total)
    if total is not None and have < total:
        raise ConnectionError(f"the connection ended after {have} of {total} bytes")


def _check_size(url: str, part: Path, size: int) -> None:
    if size > LARGEST:
        part.unlink(missing_ok=True)
        raise DatasetError(f"{url} has more than {LARGEST:,} bytes, as no published file has; try again later")


@contextmanager
def _on_disk(part: Path, mode: Literal["ab", "wb"]) -> Iterator[Callable[[bytes], None]]:
    """A function that appends to `part`. An error of our own disk is a DatasetError, which no retry follows."""

    def failed(error: OSError) -> DatasetError:
        return DatasetError(f"{part} cannot be written ({error.strerror}); make room or choose another folder")

    def write(block: bytes) -> None:
        try:
            while block:
                block = block[file.write(block) :]
        except OSError as error:
            raise failed(error) from error

    try:
        file = part.open(mode, buffering=0)
    except OSError as error:
        raise failed(error) from error
    with file:
        yield write


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
