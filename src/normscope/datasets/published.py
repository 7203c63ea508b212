"""Files as their publisher released them: found under the data root, unpacked, and checked."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from normscope.errors import DatasetError

DATA_ROOT_VARIABLE = "NORMSCOPE_DATA"
LARGEST = 2**28  # bytes of a file, packed or unpacked; the largest of all that are published here have 170e6


class Download(NamedTuple):
    """A file on the publisher's server: one file of the data set as .gz, or several as .tar.gz."""

    url: str
    md5: str  # of the packed file
    files: tuple[str, ...]  # which of `Published.files` are in it


class Published(NamedTuple):
    """The files of a data set, and where they are published."""

    name: str
    home: str
    folder: str  # under the data root
    files: Mapping[str, str | None]  # name or glob pattern in `folder` → MD5 of the unpacked file, if known
    downloads: tuple[Download, ...] = ()
    by_hand: str = ""  # how to get the files where there is no download
    instead: "Published | None" = None  # another form of the same data, read if this one is missing


def data_folder(root: Path | None, folder: str) -> Path:
    """The folder of a data set under `root`, or under the environment's NORMSCOPE_DATA if that is None."""
    if root is None and not os.environ.get(DATA_ROOT_VARIABLE):
        raise DatasetError(f"no data root for {folder}; set {DATA_ROOT_VARIABLE} or pass the folder it is in")
    return Path(root if root is not None else os.environ[DATA_ROOT_VARIABLE]) / folder


def missing(source: Published, root: Path | None) -> list[str]:
    """Which files of a data set exist neither plain nor as .gz; no file is opened."""
    if not source.files:
        return []
    folder = data_folder(root, source.folder)
    lacking = [file for file in source.files if not any(folder.glob(file)) and not any(folder.glob(f"{file}.gz"))]
    if lacking and source.instead and not missing(source.instead, root):
        return []
    return lacking


def read_published(path: Path, source: Published, verify: bool = True) -> bytes:
    """The content of `path`, or of `path`.gz unpacked; its MD5 must be the published one, if that is known.

    The MD5 is that of the unpacked content: distributors pack files anew.
    """
    packed = path.with_name(path.name + ".gz")
    try:
        found = packed if packed.is_file() else path
        if found.exists() and not found.is_file():  # opening a FIFO would wait for a writer
            raise DatasetError(f"{found} is not a regular file; expected the file published at {source.home}")
        with gzip.open(found) if found is packed else found.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        get = f"; `normscope datasets fetch {source.name}` downloads it" if source.downloads else ""
        raise DatasetError(
            f"{path} (or {packed.name}) is missing; expected the file published at {source.home}{get}"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{found} cannot be read ({error}); expected the file published at {source.home}") from error
    if len(content) > LARGEST:
        raise DatasetError(f"{found} has more than {LARGEST:,} bytes; expected the file published at {source.home}")
    if verify:
        _check(found, content, source.files[path.name], source.home)
    return content


def _check(path: Path, content: bytes, md5: str | None, home: str) -> None:
    actual = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 is not None and actual != md5:
        raise DatasetError(
            f"{path} has {len(content)} bytes with MD5 {actual}, expected MD5 {md5} as published at {home}"
        )
