"""What became of a file: read as an image, left aside, or not readable, with the reason."""

import errno
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from normscope.images.size import Size

__all__ = ["FileOutcome", "Kind", "reason_of"]


class Kind(StrEnum):
    IMAGE = "image"  # an image by its name, or once it was decoded by its content
    IGNORED = "ignored"  # nobody expects a score: hidden, not an image by its name, a folder seen already
    UNREADABLE = "unreadable"  # somebody does, and it is missing, damaged, too large ...


@dataclass(frozen=True, slots=True)  # there may be a million of them
class FileOutcome:
    """Exit codes follow from the kind alone; the reason is for people, and empty for an image."""

    path: Path
    kind: Kind = Kind.IMAGE
    reason: str = ""
    shape: Size | None = None  # of an image that was decoded


def reason_of(error: OSError | ValueError) -> str:
    """Why the system refuses a path, without the path itself."""
    if not isinstance(error, OSError):
        return f"not a possible path ({error})"  # it holds a null character or a lone surrogate
    if error.errno == errno.ENXIO:
        return "not a regular file"  # a socket
    return error.strerror or type(error).__name__
