"""What files of every format have in common: who can run them, what they say of themselves, and a checksum."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from normscope.artifact import LARGEST
from normscope.errors import ModelFileError

Pixels = npt.NDArray[np.uint8]
Run = Callable[[Pixels], dict[str, npt.NDArray[np.generic]]]
"""uint8 [n, h, w, 3] → those of `OUTPUTS` that the graph has, by name."""

OUTPUTS = ("score", "p_value", "anomalous", "heat_map")
TEXTS = ("normscope", "card", "calibration")


class Built(NamedTuple):
    """A graph that can be run and, once it has proved right, written with texts about it."""

    run: Run
    write: Callable[[Path, Mapping[str, str]], None]


class Opened(NamedTuple):
    run: Run
    texts: Mapping[str, str]
    checksum: str


def read_limited(path: Path) -> bytes:
    if (size := path.stat().st_size) > LARGEST:
        raise ModelFileError(f"it has {size:,} bytes, more than the {LARGEST:,} allowed")
    return path.read_bytes()


def sha256(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Whatever a file that is not ours leads to, in libraries that have many ways to say so, is the file's fault."""
    try:
        yield
    except (ImportError, OSError):
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
        raise ModelFileError(
            f"{path} is no intact file of `normscope export` ({reason}); export the model again"
        ) from error
