"""Tensors and texts in one .safetensors file that is refused when a single bit of it differs."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor, contiguous_format

UNSEALED = "0" * 64
LARGEST_HEADER = 100_000_000  # safetensors' own limit
# Inside another text of the header the quotes would be escaped, so this matches at the real key only.
SEAL = re.compile(rb'"sha256":"([0-9a-f]{64})"')


class SealError(ValueError):
    """Why a file is refused; the message goes on from the file's name: "is empty"."""


class Sealed(NamedTuple):
    tensors: dict[str, Tensor]
    texts: dict[str, str]
    checksum: str


def seal(tensors: Mapping[str, Tensor], texts: Mapping[str, str]) -> tuple[bytes, str]:
    """The bytes of the file and its checksum: SHA-256 of all bytes, with zeros where the checksum itself stands.

    Equal input gives equal bytes. `texts` go into the header's metadata, beside the key `sha256`.
    """
    assert "__metadata__" not in tensors
    assert "sha256" not in texts
    body = safetensors.save({name: own_copy(tensor) for name, tensor in tensors.items()})
    size = int.from_bytes(body[:8], "little")
    # safetensors writes metadata in random order, so the header is written again, sorted.
    header = json.loads(body[8 : 8 + size]) | {"__metadata__": {**texts, "sha256": UNSEALED}}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    assert len(text) <= LARGEST_HEADER
    data = b"".join([len(text).to_bytes(8, "little"), text, memoryview(body)[8 + size :]])
    start = find_seal(data, 8 + len(text))
    checksum = digest(data, start)
    view = memoryview(data)
    return b"".join([view[:start], checksum.encode(), view[start + 64 :]]), checksum


def own_copy(tensor: Tensor) -> Tensor:
    """The tensor alone in memory of its own: safetensors refuses views and shared storage."""
    return tensor.detach().cpu().clone(memory_format=contiguous_format)


def read(path: Path) -> Sealed:
    """The contents of an intact file; everything else is a `SealError`."""
    try:
        return unseal(read_bytes(path))
    except OSError as error:
        raise SealError(f"cannot be read: {error.strerror}") from error


def read_bytes(path: Path) -> bytes:
    """All bytes, but only once the first nine look right: the path may name a film of 50 GB or a device."""
    if path.is_dir():
        raise SealError("is a folder, not a file")
    if not path.exists():
        raise SealError("does not exist")
    if not path.is_file():
        raise SealError("is not a regular file")
    with path.open("rb") as file:
        header_size(file.read(9))
        file.seek(0)
        return file.read()


def unseal(data: bytes) -> Sealed:
    """The inverse of `seal`."""
    end = 8 + header_size(data)
    if end > len(data):
        raise SealError("was cut short")
    texts = read_texts(data[8:end])
    start = find_seal(data, end)
    checksum = data[start : start + 64].decode()
    if digest(data, start) != checksum:
        raise SealError("was changed or damaged after it was saved")
    try:
        return Sealed(safetensors.load(data), texts, checksum)
    except (SafetensorError, KeyError, ValueError) as error:
        raise SealError(f"holds tensors that cannot be read ({error})") from error


def header_size(data: bytes) -> int:
    """What the first eight bytes promise; a safetensors header begins with a brace."""
    if not data:
        raise SealError("is empty")
    size = int.from_bytes(data[:8], "little")
    if data[8:9] != b"{" or size > LARGEST_HEADER:
        raise SealError("is not a safetensors file")
    return size


def read_texts(header: bytes) -> dict[str, str]:
    try:
        texts = json.loads(header)["__metadata__"]
    except KeyError:
        raise SealError("was not written by normscope") from None
    except (ValueError, RecursionError) as error:
        raise SealError("has a damaged header") from error
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise SealError("has a damaged header")
    return texts


def find_seal(data: bytes, end: int) -> int:
    """Where the 64 digits begin in the header, which ends at `end`."""
    match = SEAL.search(data, 8, end)
    if match is None:
        raise SealError("was not written by normscope")
    return match.start(1)


def digest(data: bytes, start: int) -> str:
    view = memoryview(data)
    sha = hashlib.sha256(view[:start])
    sha.update(UNSEALED.encode())
    sha.update(view[start + 64 :])
    return sha.hexdigest()
