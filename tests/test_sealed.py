import hashlib
import json
import os
import random
import re
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

from normscope import sealed
from normscope.sealed import SealError, TensorInfo

TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3),
    "b": torch.tensor([1, 2, 3, 4], dtype=torch.uint8),
    "c": torch.tensor([True, False]),
    "d": torch.zeros(0, 3),
}
TEXTS = {"kind": "test", "note": 'quoted "sha256":"' + "0" * 64 + '"', "zeros": "0" * 64}


def write(path, tensors=TENSORS, texts=TEXTS):
    chunks, checksum = sealed.seal(tensors, texts)
    path.write_bytes(b"".join(chunks))
    return checksum


def read(path):
    header = sealed.read_header(path)
    return sealed.read_tensors(path, header), header


def header_and_body(data):
    end = 8 + int.from_bytes(data[:8], "little")
    return data[8:end].decode().rstrip(), data[end:]


def resealed(header: str, body: bytes) -> bytes:
    """A file as an attacker makes it: any header, with a checksum that is right."""
    text = header.encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    text = len(text).to_bytes(8, "little") + text
    place = text.rindex(b'"sha256":"') + len(b'"sha256":"')
    text = text[:place] + b"0" * 64 + text[place + 64 :]
    checksum = hashlib.sha256(text + body).hexdigest().encode()
    return text[:place] + checksum + text[place + 64 :] + body


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    write(path)
    return path


def test_round_trip(path):
    tensors, header = read(path)
    assert header.texts == TEXTS
    assert header.checksum == write(path)
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)
        assert header.tensors[name] == TensorInfo(tensor.dtype, tuple(tensor.shape))


def test_any_safetensors_reader_can_open_it(path):
    with safetensors.safe_open(path, "pt") as file:
        assert {name: file.metadata()[name] for name in TEXTS} == TEXTS
        assert all(torch.equal(file.get_tensor(name), tensor) for name, tensor in TENSORS.items())


def test_what_safetensors_lays_out_is_laid_out_the_same(tmp_path):
    """Their header is not sealed, but the bytes of the tensors are where theirs are."""
    ours = b"".join(sealed.seal(TENSORS, {})[0])
    assert header_and_body(ours)[1] == header_and_body(safetensors.torch.save(TENSORS))[1]


def test_no_tensor_is_read_for_the_header(path, monkeypatch):
    monkeypatch.setattr(sealed, "read_tensor", None)
    monkeypatch.setattr(torch, "empty", None)
    assert list(sealed.read_header(path).tensors) == ["a", "d", "b", "c"]
    sealed.verify(path, sealed.read_header(path))


def test_sealing_copies_no_tensor():
    weight = torch.zeros(1000)
    start, body = sealed.seal({"weight": weight}, {})[0]
    weight[0] = 1
    assert bytes(body[:4]) == b"\0\0\x80\x3f"
    assert isinstance(start, bytes)


def test_a_file_that_was_replaced_after_its_header_was_read_is_refused(path):
    header = sealed.read_header(path)
    write(path, {**TENSORS, "b": torch.tensor([1, 2, 3, 5], dtype=torch.uint8)})
    with pytest.raises(SealError, match="was changed while it was read"):
        sealed.read_tensors(path, header)


def test_a_body_that_was_changed_after_its_header_was_read_is_refused(path):
    header = sealed.read_header(path)
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    for function in (sealed.verify, sealed.read_tensors):
        with pytest.raises(SealError, match="was changed or damaged after it was saved"):
            function(path, header)


def entry(name, dtype="U8", shape=(), begin=0, end=0, **more):
    return {name: {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end], **more}}


def with_entries(*entries):
    """The header without tensors a to d and with these."""

    def change(header):
        metadata = {"__metadata__": json.loads(header)["__metadata__"]}
        for one in entries:
            metadata |= one
        return json.dumps(metadata, sort_keys=True, separators=(",", ":"))

    return change


def replaced(old, new):
    def change(header):
        assert old in header
        return header.replace(old, new, 1)

    return change


# Each has the right checksum; the body has 30 bytes, the 26th of which is a 2.
HOSTILE = {
    "nested deeply": replaced('"kind":"test"', '"kind":' + "[" * 100_000 + "]" * 100_000),
    "nested deeply, open": replaced('"kind":"test"', '"kind":' + '{"a":' * 100_000),
    "a tensor twice": replaced('"b":', '"a":{"data_offsets":[0,0],"dtype":"U8","shape":[0]},"b":'),
    "a text twice": replaced('"kind":"test"', '"kind":"first","kind":"test"'),
    "a field twice": replaced('"dtype":"F32"', '"dtype":"U8","dtype":"F32"'),
    "an integer of a thousand digits": replaced("[2,3]", f"[{'9' * 1000},3]"),
    "an integer of ten thousand digits": replaced("[2,3]", f"[{'9' * 10_000},3]"),
    "a fraction in a shape": replaced("[2,3]", "[2.0,3]"),
    "a truth value in a shape": replaced("[2,3]", "[6,true]"),
    "a text in a shape": replaced("[2,3]", '[6,"1"]'),
    "NaN in a shape": replaced("[2,3]", "[NaN,3]"),
    "a negative dimension": replaced("[2,3]", "[-2,-3]"),
    "65 dimensions": replaced("[2,3]", f"[2,3{',1' * 63}]"),
    "half a million dimensions": replaced("[2,3]", f"[2,3{',1' * 490_000}]"),
    "a product that overflows": replaced("[2,3]", f"[{2**63},{2**63}]"),
    "a product that overflows to the right size": replaced("[2,3]", f"[{2**62 + 6},4]"),
    "a product that overflows beside a nought": with_entries(
        entry("a", "U8", [30], 0, 30), entry("b", "U8", [0, 2**40, 2**40], 30, 30)
    ),
    "an unknown dtype": replaced('"F32"', '"F31"'),
    "a dtype that is no text": replaced('"F32"', "32"),
    "a dtype of another size": replaced('"F32"', '"F64"'),
    "an offset that is negative": replaced("[0,24]", "[-24,0]"),
    "offsets the wrong way round": with_entries(entry("a", "U8", [0], 30, 0)),
    "three offsets": replaced("[0,24]", "[0,12,24]"),
    "overlapping tensors": with_entries(entry("a", "U8", [30], 0, 30), entry("b", "U8", [10], 10, 20)),
    "the same bytes twice": with_entries(entry("a", "U8", [30], 0, 30), entry("b", "U8", [30], 0, 30)),
    "a gap": with_entries(entry("a", "U8", [10], 0, 10), entry("b", "U8", [10], 20, 30)),
    "a gap as long as an overlap": with_entries(entry("a", "U8", [20], 0, 20), entry("b", "U8", [10], 10, 20)),
    "offsets for another shape": with_entries(entry("a", "U8", [20], 0, 10), entry("b", "U8", [10], 10, 30)),
    "bytes before the first tensor": with_entries(entry("a", "U8", [20], 10, 30)),
    "bytes after the last tensor": with_entries(entry("a", "U8", [20], 0, 20)),
    "more tensor than file": with_entries(entry("a", "U8", [31], 0, 31)),
    "far more tensor than file": with_entries(entry("a", "U8", [2**50], 0, 2**50)),
    "no tensor for the bytes": with_entries(),
    "another field": with_entries(entry("a", "U8", [30], 0, 30, stride=[1])),
    "a field missing": replaced('"dtype":"F32",', ""),
    "a tensor that is a list": replaced('"c":{', '"bb":[],"c":{'),
    "a tensor that is null": replaced('"c":{', '"bb":null,"c":{'),
    "a text that is a number": replaced('"kind":"test"', '"kind":1'),
    "a text that is null": replaced('"kind":"test"', '"kind":null'),
    "a text that is a table": replaced('"kind":"test"', '"kind":{}'),
    "metadata that are a list": lambda header: '{"__metadata__":[{"sha256":"' + "0" * 64 + '"}]}',
    "no metadata, the checksum in a tensor": lambda header: '{"a":{"sha256":"' + "0" * 64 + '"}}',
    "a list": lambda header: '[{"sha256":"' + "0" * 64 + '"}]',
    "two checksums": replaced('"kind":', f'"a":{{"sha256":"{"1" * 64}"}},"kind":'),
    "something after the end": lambda header: header + "{}",
    "a space more": replaced('"kind":"test"', '"kind": "test"'),
    "out of order": lambda header: json.dumps(
        {name: json.loads(header)[name] for name in ("d", "c", "b", "a", "__metadata__")}, separators=(",", ":")
    ),
    "a letter that need not be escaped": replaced('"kind":"test"', '"kind":"t\\u0065st"'),
    "not UTF-8": replaced('"kind":"test"', '"kind":"\ud800"'),
    "a byte that is no JSON": replaced('"kind":"test"', '"kind":"\0"'),
    "a truth value of 2": with_entries(
        entry("a", "U8", [25], 0, 25), entry("b", "BOOL", [1], 25, 26), entry("c", "U8", [4], 26, 30)
    ),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_with_the_right_checksum_is_refused(path, change):
    header, body = header_and_body(path.read_bytes())
    path.write_bytes(resealed(header, body))
    read(path)  # so that no case is refused for want of a seal
    path.write_bytes(resealed(change(header), body))
    with pytest.raises(SealError) as error:
        read(path)
    assert len(str(error.value)) < 100
    assert "\n" not in str(error.value)


def mutated(tree, rng):
    """The tree with one node replaced, removed or added, at random."""
    odd = [
        None,
        True,
        -1,
        0,
        1,
        2**31,
        2**63,
        10**400,
        0.5,
        1e400,
        "",
        "F64",
        "BOOL",
        "sha256",
        "\n\x1b",
        [],
        {},
        [0, 30],
    ]
    if isinstance(tree, dict) and tree and rng.random() < 0.8:
        key = rng.choice(list(tree))
        action = rng.random()
        if action < 0.1:
            return {name: value for name, value in tree.items() if name != key}
        if action < 0.2:
            return {**tree, rng.choice(["", "a", "e", "sha256", "__metadata__"]): rng.choice([*odd, tree[key]])}
        return {**tree, key: mutated(tree[key], rng)}
    if isinstance(tree, list) and tree and rng.random() < 0.8:
        place = rng.randrange(len(tree))
        return [*tree[:place], mutated(tree[place], rng), *tree[place + 1 :]]
    return tree + rng.choice([-1, 1, 8]) if type(tree) is int and rng.random() < 0.5 else rng.choice(odd)


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_random_headers_with_the_right_checksum_are_refused_or_harmless(path, count):
    header, body = header_and_body(path.read_bytes())
    rng, refused = random.Random(count), 0
    for _ in range(count):
        tree = json.loads(header)
        for _ in range(rng.randint(1, 3)):
            tree = mutated(tree, rng)
        text = json.dumps(tree, sort_keys=True, separators=(",", ":"))
        if '"sha256":"' not in text:
            continue
        path.write_bytes(resealed(text, body))
        try:
            tensors, _ = read(path)
            assert sum(tensor.nbytes for tensor in tensors.values()) == len(body)
        except SealError:
            refused += 1
    assert count / 3 < refused < count


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_bit_flips_are_refused(path, count):
    write(path, {**TENSORS, "weight": torch.rand(300)})
    data, rng = path.read_bytes(), random.Random(count)
    with path.open("r+b", buffering=0) as file:
        for bit in rng.sample(range(8 * len(data)), count):
            byte = data[bit // 8]
            for value in (byte ^ (1 << bit % 8), byte):
                os.pwrite(file.fileno(), bytes([value]), bit // 8)
                if value != byte:
                    with pytest.raises(SealError):
                        read(path)
    read(path)


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_truncations_are_refused(path, count):
    write(path, {**TENSORS, "weight": torch.rand(300)})
    lengths = random.Random(count).sample(range(path.stat().st_size), count)
    for length in sorted(lengths, reverse=True):
        os.truncate(path, length)
        with pytest.raises(SealError):
            read(path)


def test_additions_are_refused(path):
    with path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(SealError, match="is longer than its header says"):
        read(path)


METADATA = f'"__metadata__":{{"sha256":"{"0" * 64}"}}'


def one_tensor(size):
    return resealed(f'{{{METADATA},"a":{{"data_offsets":[0,{size}],"dtype":"U8","shape":[{size}]}}}}', b"")


def sparse(path, start, size):
    path.write_bytes(start)
    os.truncate(path, size)
    return path


def peak():
    """Of this process, in bytes, since /proc/self/clear_refs was written to."""
    return 1024 * int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1])


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="only Linux tells how much memory it took")
@pytest.mark.parametrize(
    ("start", "size", "says"),
    [
        ((100_000_000).to_bytes(8, "little") + b"{", 100_000_100, "has a header of 100,000,000 bytes"),
        (resealed(f'{{{METADATA},"a":[{"[]," * 300_000}[]]}}', b""), None, "has a damaged header"),
        (resealed(f'{{{METADATA},"a":{"[" * 900_000}', b""), None, "has a damaged header"),
        (one_tensor(24), 6_000_000_000, "has 6,000,000,000 bytes, more than the 1,073,741,824"),
        (one_tensor(6_000_000_000 - 160), 6_000_000_000, "has 6,000,000,000 bytes, more than the 1,073,741,824"),
        (one_tensor(24), 2**30, "is longer than its header says"),
        (one_tensor(2**50), 2**30, "was cut short"),
        (one_tensor(2**27), len(one_tensor(2**27)) + 2**27, "was changed or damaged"),
    ],
)
def test_refusing_a_huge_file_takes_little_time_and_memory(tmp_path, start, size, says):
    path = sparse(tmp_path / "file", start, size or len(start))
    Path("/proc/self/clear_refs").write_text("5")
    before, began = peak(), time.process_time()
    with pytest.raises(SealError, match=says):
        sealed.read_tensors(path, sealed.read_header(path, 2**30))
    assert time.process_time() - began < 2
    assert peak() - before < 100e6


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(100), "is not a safetensors file"),
        (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x06weight\x94K\x01s.", "is not a safetensors file"),
        (b"{}", "is not a safetensors file"),
        ((2**63).to_bytes(8, "little") + b"{}", "is not a safetensors file"),
        (
            (90_000_000).to_bytes(8, "little") + b"{}",
            "has a header of 90,000,000 bytes, more than the 1,000,000 that are read",
        ),
        ((900_000).to_bytes(8, "little") + b"{}", "was cut short"),
        (safetensors.torch.save(TENSORS), "was not written by normscope"),
        (safetensors.torch.save(TENSORS, {"format": "pt"}), "was not written by normscope"),
    ],
)
def test_other_files_are_refused_by_name(path, data, says):
    path.write_bytes(data)
    with pytest.raises(SealError, match=f"^{says}$"):
        sealed.read_header(path)


def test_a_foreign_file_of_any_size_is_named_as_such(tmp_path):
    film = sparse(tmp_path / "film", b"\0\0\0 ftypisom", 6_000_000_000)
    with pytest.raises(SealError, match="is not a safetensors file"):
        sealed.read_header(film, 1000)


def test_missing_file_folder_and_device(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, says in (
        (tmp_path / "nowhere", "does not exist"),
        (tmp_path, "is a folder, not a file"),
        (Path("/dev/null"), "is not a regular file"),
        (tmp_path / "fifo", "is not a regular file"),
    ):
        with pytest.raises(SealError, match=says):
            sealed.read_header(path)


def test_unreadable_file(path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SealError, match="cannot be read: Permission denied"):
        sealed.read_header(path)
