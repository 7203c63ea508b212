"""Tensors and texts in one .safetensors file that is refused when a single bit of it differs.

Reading goes from cheap to costly: the header, of limited length; whether its tensors fill the file exactly; the
checksum, block by block; only then the tensors. So refusing a file costs little, whatever is in it.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeGuard

import torch
from torch import Tensor

from normscope.settings import JSON

LARGEST_HEADER = 1_000_000  # bytes; the longest that `fit` writes, a checkpoint of the paper's networks, has 50,000
SAFETENSORS_HEADER = 100_000_000  # bytes; no safetensors file has a longer one
BLOCK = 2**20
UNSEALED = "0" * 64
# Inside another text of the header the quotes would be escaped, so this matches at the real key only.
SEAL = re.compile(rb'"sha256":"[0-9a-f]{64}"')
DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class SealError(ValueError):
    """Why a file is refused; the message goes on from the file's name: "is empty"."""


class TensorInfo(NamedTuple):
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class Header(NamedTuple):
    """What a file says it holds. It is well-formed and fits the file's size; whether it is intact, `verify` tells."""

    texts: dict[str, str]
    tensors: dict[str, TensorInfo]  # in the order of their bytes in the file
    checksum: str
    data: bytes  # the file up to the first tensor


def seal(tensors: Mapping[str, Tensor], texts: Mapping[str, str]) -> tuple[list[bytes | memoryview], str]:
    """The file, as chunks to be written one after the other, and its checksum.

    The checksum is the SHA-256 of all bytes, with zeros where the checksum itself stands: in the header's metadata,
    beside `texts`. Equal input gives equal bytes.
    """
    assert "__metadata__" not in tensors
    assert "sha256" not in texts
    header: dict[str, JSON] = {"__metadata__": {**texts, "sha256": UNSEALED}}
    body, end = [], 0
    for name in sorted(tensors, key=lambda name: (-tensors[name].element_size(), name)):  # this keeps all aligned
        tensor = tensors[name]
        body.append(bytes_of(tensor))
        begin, end = end, end + len(body[-1])
        header[name] = {"dtype": DTYPE_NAMES[tensor.dtype], "shape": [*tensor.shape], "data_offsets": [begin, end]}
    start = encode(header)
    assert len(start) <= LARGEST_HEADER
    sha = hashlib.sha256(start)
    for chunk in body:
        sha.update(chunk)
    return [with_seal(start, sha.hexdigest()), *body], sha.hexdigest()


def bytes_of(tensor: Tensor) -> memoryview:
    """No copy, where the tensor is contiguous and on the CPU."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def encode(header: JSON) -> bytes:
    """The start of a file: eight bytes with the header's length, the header, spaces up to a multiple of 8."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def with_seal(start: bytes, checksum: str) -> bytes:
    return SEAL.sub(f'"sha256":"{checksum}"'.encode(), start, count=1)


def read_header(path: Path, largest: int | None = None) -> Header:
    """The header of a file of at most `largest` bytes whose tensors, none of which is read, fill the rest of it."""
    with opened(path) as file:
        return header_of(file, largest)


def read(path: Path) -> tuple[Header, dict[str, Tensor]]:
    """Header and tensors of a file that has the checksum of its header: of one file, if another takes its place."""
    with opened(path) as file:
        header = header_of(file, None)
        file.seek(0)
        return header, tensors_of(file, header)


def header_of(file: BinaryIO, largest: int | None) -> Header:
    length = header_length(file.read(9))
    size = file.seek(0, 2)
    if largest is not None and size > largest:
        raise SealError(f"has {size:,} bytes, more than the {largest:,} that are read")
    if 8 + length > size:
        raise SealError("was cut short")
    file.seek(0)
    header = decode(file.read(8 + length))
    promised = len(header.data) + sum(info.nbytes for info in header.tensors.values())
    if size != promised:
        raise SealError("was cut short" if size < promised else "is longer than its header says")
    return header


def verify(path: Path, header: Header) -> None:
    """Raise unless the file has the checksum of its header."""
    with opened(path) as file:
        check_digest(file, header)


def read_tensors(path: Path, header: Header) -> dict[str, Tensor]:
    """The tensors of a file that has the checksum of its header."""
    with opened(path) as file:
        return tensors_of(file, header)


def tensors_of(file: BinaryIO, header: Header) -> dict[str, Tensor]:
    check_digest(file, header)
    file.seek(len(header.data))
    return {name: read_tensor(file, info) for name, info in header.tensors.items()}


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file: opening a FIFO would wait for a writer, and a device may have no end."""
    try:
        if path.is_dir():
            raise SealError("is a folder, not a file")
        if not path.exists():
            raise SealError("does not exist")
        if not path.is_file():
            raise SealError("is not a regular file")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise SealError(f"cannot be read: {error.strerror}") from error


def header_length(start: bytes) -> int:
    """What the first eight bytes promise; a safetensors header begins with a brace."""
    if not start:
        raise SealError("is empty")
    length = int.from_bytes(start[:8], "little")
    if start[8:9] != b"{" or length > SAFETENSORS_HEADER:
        raise SealError("is not a safetensors file")
    if length > LARGEST_HEADER:
        raise SealError(f"has a header of {length:,} bytes, more than the {LARGEST_HEADER:,} that are read")
    return length


def decode(start: bytes) -> Header:
    """The inverse of `encode`; JSON that `encode` would have written otherwise, as with a key twice, is refused."""
    if not SEAL.search(start):
        raise SealError("was not written by normscope")
    try:
        header = json.loads(start[8:])
        if encode(header) != start:
            raise ValueError("not as `encode` writes it")
        texts = header.pop("__metadata__")
        if not all(isinstance(text, str) for text in texts.values()):
            raise ValueError("metadata are texts")
        return Header(texts, tensor_infos(header), texts.pop("sha256"), start)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise SealError("has a damaged header") from error


def tensor_infos(entries: Mapping[str, JSON]) -> dict[str, TensorInfo]:
    """In the order of their bytes; each tensor must begin where the one before it ends."""
    places = {name: place_of(entry) for name, entry in entries.items()}
    infos, position = {}, 0
    for name, (begin, end, info) in sorted(places.items(), key=lambda item: (*item[1][:2], item[0])):
        if begin != position:
            raise ValueError("a gap or an overlap")
        infos[name], position = info, end
    return infos


def place_of(entry: JSON) -> tuple[int, int, TensorInfo]:
    """Begin, end and kind of a tensor; no number that torch has to multiply exceeds 63 bits."""
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": list(offsets), **rest}:
            if not rest and are_sizes(shape) and are_sizes(offsets) and math.prod(max(n, 1) for n in shape) < 2**60:
                info, (begin, end) = TensorInfo(DTYPES[dtype], tuple(shape)), offsets
                if end - begin == info.nbytes:
                    return begin, end, info
    raise ValueError("not a tensor")


def are_sizes(numbers: list[JSON]) -> TypeGuard[list[int]]:
    """Whole numbers from 0 on, and not so many that it would take long to multiply them; torch has 64 dimensions."""
    return len(numbers) <= 64 and all(type(n) is int and n >= 0 for n in numbers)


def check_digest(file: BinaryIO, header: Header) -> None:
    """With one block in memory at a time."""
    if file.read(len(header.data)) != header.data:
        raise SealError("was changed while it was read")
    sha = hashlib.sha256(with_seal(header.data, UNSEALED))
    while block := file.read(BLOCK):
        sha.update(block)
    if sha.hexdigest() != header.checksum:
        raise SealError("was changed or damaged after it was saved")


def read_tensor(file: BinaryIO, info: TensorInfo) -> Tensor:
    data = torch.empty(info.nbytes, dtype=torch.uint8)
    if file.readinto(data.numpy()) != len(data):  # type: ignore[attr-defined]
        raise SealError("was cut short while it was read")
    if info.dtype is torch.bool and len(data) and data.max() > 1:  # torch counts on 0 and 1, or writes out of bounds
        raise SealError("holds truth values other than 0 and 1")
    return data.view(info.dtype).reshape(info.shape)


def first_not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """In parts: of a whole tensor `isfinite` would make a second one."""
    for name, tensor in tensors.items():
        if not all(part.isfinite().all() for part in tensor.detach().reshape(-1).split(2**20)):
            return name
    return None
