"""The model file: one .safetensors with a JSON card in its header, checksummed, and no code inside."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from normscope import sealed
from normscope.errors import ModelFileError
from normscope.files import write_atomically
from normscope.sealed import first_not_finite
from normscope.settings import JSON

FORMAT, ALSO_READ, OLDER = "6", "5", ("1", "2", "3", "4")  # 5 has triangular matrices whole
LARGEST = 2**30  # bytes, which are hashed in two seconds; the largest network here, the paper's big one, has 0.8e9


def save(path: str | Path, tensors: Mapping[str, Tensor], card: Mapping[str, JSON]) -> str:
    """Write the model file atomically and return its checksum; equal input gives an equal file."""
    if (name := first_not_finite(tensors)) is not None:
        raise ModelFileError(f"{path} was not written: the model's tensor {name!r} has NaN or infinite values")
    chunks, checksum = sealed.seal(tensors, {"normscope": FORMAT, "card": to_text(card)})
    if (size := sum(map(len, chunks))) > LARGEST:
        raise ModelFileError(f"{path} was not written: it would have {size:,} bytes, more than the {LARGEST:,} allowed")
    try:
        write_atomically(Path(path), lambda file: file.writelines(chunks))
    except OSError as error:
        raise ModelFileError(
            f"{path} cannot be written: {error.strerror}; choose a folder that exists, is writable and has room"
        ) from error
    return checksum


def read_header(path: str | Path) -> tuple[dict[str, JSON], sealed.Header]:
    """Card and header, before anything else is read: `header.tensors` has the dtype and shape of every tensor.

    Both are well-formed, but only `read_tensors` or `verify` tell whether they are intact.
    """
    with refusals(path):
        header = sealed.read_header(Path(path), LARGEST)
        if "normscope" not in header.texts or "card" not in header.texts:
            raise sealed.SealError("is not a normscope model")
        check_format(path, header.texts["normscope"])
        return from_text(header.texts["card"]), header


def read_tensors(path: str | Path, header: sealed.Header) -> dict[str, Tensor]:
    """The tensors, all finite, of a file of which every bit is as it was saved."""
    with refusals(path):
        tensors = sealed.read_tensors(Path(path), header)
        if (name := first_not_finite(tensors)) is not None:
            raise sealed.SealError(f"has NaN or infinite values in its tensor {name[:80]!r}")
        return tensors


def verify(path: str | Path, header: sealed.Header) -> None:
    """Raise unless every bit is as it was saved; no tensor is kept in memory."""
    with refusals(path):
        sealed.verify(Path(path), header)


def load(path: str | Path) -> tuple[dict[str, Tensor], dict[str, JSON], str]:
    """Tensors, card and checksum."""
    card, header = read_header(path)
    return read_tensors(path, header), card, header.checksum


def read_card(path: str | Path) -> tuple[dict[str, JSON], str]:
    """Card and checksum, verified."""
    card, header = read_header(path)
    verify(path, header)
    return card, header.checksum


@contextmanager
def refusals(path: str | Path) -> Iterator[None]:
    try:
        yield
    except sealed.SealError as error:
        raise ModelFileError(f"{path} {error}; give a model that `normscope fit` wrote") from error


def check_format(path: str | Path, given: str) -> None:
    if given in OLDER:
        raise ModelFileError(f"{path} was written by an older normscope (format {given}); fit it again")
    if given not in (FORMAT, ALSO_READ):
        raise ModelFileError(
            f"{path} has format {given[:20]!r}, this normscope reads {FORMAT!r}; upgrade normscope or fit it again"
        )


def to_text(card: Mapping[str, JSON]) -> str:
    return json.dumps(card, sort_keys=True, separators=(",", ":"), allow_nan=False)


def from_text(text: str) -> dict[str, JSON]:
    """The inverse of `to_text`; JSON that it would have written otherwise, as with a key twice, is refused."""
    try:
        card = json.loads(text)
        if isinstance(card, dict) and to_text(card) == text:
            return card
    except (ValueError, RecursionError):
        pass
    raise sealed.SealError("has a damaged card")
