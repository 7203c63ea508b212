"""Files as their publisher released them: found under the data root, unpacked, and checked."""

import gzip
import hashlib
import os
import zlib
from pathlib import Path

from normscope.errors import DatasetError

DATA_ROOT_VARIABLE = "NORMSCOPE_DATA"


def data_folder(root: Path | None, folder: str) -> Path:
    """The folder of a data set under `root`, or under the environment's NORMSCOPE_DATA if that is None."""
    if root is None and not os.environ.get(DATA_ROOT_VARIABLE):
        raise DatasetError(f"no data root for {folder}; set {DATA_ROOT_VARIABLE} or pass the folder it is in")
    return Path(root if root is not None else os.environ[DATA_ROOT_VARIABLE]) / folder


def read_published(path: Path, md5: str, home: str, verify: bool = True) -> bytes:
    """The content of `path`, or of `path`.gz unpacked, whose MD5 must be the published one.

    The MD5 is of the unpacked content, so that a file which somebody packed again still passes.
    """
    packed = path.with_name(path.name + ".gz")
    found = packed if packed.is_file() else path
    try:
        content = gzip.decompress(found.read_bytes()) if found is packed else found.read_bytes()
    except FileNotFoundError:
        raise DatasetError(f"{path} (or {packed.name}) is missing; expected the file published at {home}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{found} cannot be read ({error}); expected the file published at {home}") from error
    if verify:
        _check(found, content, md5, home)
    return content


def _check(path: Path, content: bytes, md5: str, home: str) -> None:
    actual = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if actual != md5:
        raise DatasetError(
            f"{path} has {len(content)} bytes with MD5 {actual}, expected MD5 {md5} as published at {home}"
        )
