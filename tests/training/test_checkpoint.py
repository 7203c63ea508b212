import math
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch

from normscope import sealed
from normscope.errors import CheckpointError
from normscope.files import previous
from normscope.training import checkpoint

FACTS = {"seed": 1, "settings": {"beta": 5.0, "widths": [1, 2]}, "data": "abc"}


def same(a, b):
    """Equal in structure, types and bits."""
    if isinstance(a, torch.Tensor):
        as_bytes = [t.contiguous().reshape(-1).view(torch.uint8).tolist() for t in (a, b)]
        return a.dtype == b.dtype and a.shape == b.shape and as_bytes[0] == as_bytes[1]
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return (
            list(a) == list(b)
            and all(type(k) is type(j) for k, j in zip(a, b, strict=True))
            and all(same(a[k], b[k]) for k in a)
        )
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.checkpoint"


def round_trip(path, state):
    checkpoint.save(path, state, {})
    return checkpoint.load(path)[0]


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        (),
        [],
        {1: "a", "1": "b", -3: ()},
        {"betas": (0.9, 0.999), "list": [1, [2, (3,)]], "empty": [(), [], {}]},
        {"tensor": "not a tensor", "dict": {"tuple": [1]}, "tuple": {"tensor": "0"}},
        [0.1, 1e-320, -0.0, math.inf, -math.inf, math.nan, 2**127 + 1, True, False, 1, None, "ü\n\ud800"],
        np.random.default_rng(3).bit_generator.state,
    ],
)
def test_what_json_lacks_round_trips(path, state):
    assert same(round_trip(path, state), state)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64"],
)
def test_tensors_keep_dtype_shape_and_bits(path, dtype):
    dtype = getattr(torch, dtype)
    full = torch.tensor([[0, 1, 0], [1, 1, 0]]).to(dtype)
    state = [full, full[:, 1], full.T, full[0, 0], torch.zeros(0, 3, dtype=dtype), full]
    assert same(round_trip(path, state), state)


def test_nan_payloads_survive(path):
    state = torch.tensor([0x7FC00001, -0x3FFFFF, 0x7F800000], dtype=torch.int32).view(torch.float32)
    assert same(round_trip(path, state), state)


def test_training_continues_as_if_it_had_not_stopped(path):
    def start():
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
        optimizer = torch.optim.AdamW([{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}])
        return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9)

    def steps(model, optimizer, schedule, batches):
        for x in batches:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            schedule.step()

    batches = torch.randn(6, 5, 3, generator=torch.Generator().manual_seed(1))
    whole, first, second = start(), start(), start()
    steps(*whole, batches)
    steps(*first, batches[:3])
    state = {"parts": [part.state_dict() for part in first], "rng": torch.get_rng_state()}
    read = round_trip(path, state)
    assert same(read["rng"], state["rng"])
    for part, saved in zip(second, read["parts"], strict=True):
        part.load_state_dict(saved)
    steps(*second, batches[3:])
    assert same(dict(second[0].state_dict()), dict(whole[0].state_dict()))
    assert same(second[1].state_dict(), whole[1].state_dict())


def test_an_ordered_dict_comes_back_as_a_dict(path):
    assert same(round_trip(path, OrderedDict(b=1, a=2)), {"b": 1, "a": 2})


@pytest.mark.parametrize("state", [{1.5: 2}, {"a": object()}, np.zeros(3)])
def test_what_cannot_be_kept_is_our_own_bug(path, state):
    with pytest.raises(AssertionError):
        checkpoint.save(path, state, {})
    assert not checkpoint.exists(path)


def test_falls_back_to_the_previous_when_the_newest_is_damaged_or_gone(path):
    checkpoint.save(path, 1, FACTS)
    checkpoint.save(path, 2, FACTS)
    assert checkpoint.load(path) == (2, FACTS)
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    assert checkpoint.load(path) == (1, FACTS)
    path.unlink()
    assert checkpoint.exists(path)
    assert checkpoint.load(path, expect=FACTS) == (1, FACTS)


def test_neither_usable_is_one_sentence(path):
    with pytest.raises(CheckpointError, match=r"run\.checkpoint does not exist; start anew"):
        checkpoint.load(path)
    path.write_bytes(b"\x80pickle")
    previous(path).write_bytes(b"")
    with pytest.raises(CheckpointError, match="is not a safetensors file; start anew"):
        checkpoint.load(path)


def test_remove_and_exists(path):
    assert not checkpoint.exists(path)
    checkpoint.remove(path)
    for state in [1, 2]:
        checkpoint.save(path, state, {})
    assert checkpoint.exists(path)
    checkpoint.remove(path)
    assert not checkpoint.exists(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seed": 2}, r"\(seed 1, now 2\); delete it or start anew"),
        ({"settings": {"beta": 20.0, "widths": [1, 2]}}, r"\(settings\.beta 5\.0, now 20\.0\)"),
        ({"settings": {"beta": 5.0, "widths": [1]}}, r"\(settings\.widths \[1, 2\], now \[1\]\)"),
        ({"settings": {"beta": 5.0}}, r"\(settings\.widths \[1, 2\], now absent\)"),
        ({"size": 32}, r"\(size absent, now 32\)"),
    ],
)
def test_another_run_is_named_by_the_first_fact_that_differs(path, change, says):
    checkpoint.save(path, 1, FACTS)
    with pytest.raises(CheckpointError, match=r"run\.checkpoint is of another run " + says):
        checkpoint.load(path, expect=FACTS | change)


def test_facts_may_hold_tuples(path):
    checkpoint.save(path, 1, {"widths": (1, 2)})
    assert checkpoint.load(path, expect={"widths": (1, 2)}) == (1, {"widths": [1, 2]})


def test_a_model_file_or_other_format_is_no_checkpoint(path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FORMAT", "2")
    checkpoint.save(path, 1, {})
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="is not a checkpoint of format 1"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    ("skeleton", "facts"),
    [
        ("", "{}"),
        ('{"tensor":"0"}', "{}"),
        ('{"dict":[[[],1]]}', "{}"),
        ('{"dict":[1]}', "{}"),
        ('{"set":[]}', "{}"),
        ("[" * 100_000, "{}"),
        ("1", "[]"),
        ("1", '"text"'),
        ("1", "{"),
    ],
)
def test_a_skeleton_or_facts_that_were_never_saved_are_refused(path, skeleton, facts):
    texts = {"normscope_checkpoint": "1", "skeleton": skeleton, "facts": facts}
    path.write_bytes(b"".join(sealed.seal({}, texts)[0]))
    with pytest.raises(CheckpointError, match="has a damaged header; start anew"):
        checkpoint.load(path)


def test_a_link_stays_and_what_it_leads_to_is_the_checkpoint(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "run.checkpoint"
    link.symlink_to(tmp_path / "disk" / "kept")
    for state in (1, 2):
        checkpoint.save(link, state, {})
    assert checkpoint.load(link)[0] == 2
    (tmp_path / "disk" / "kept").write_bytes(b"damaged")
    assert checkpoint.load(link)[0] == 1
    checkpoint.remove(link)
    assert link.is_symlink()
    assert list((tmp_path / "disk").iterdir()) == []
    assert not checkpoint.exists(link)


def test_where_it_cannot_be_written_says_so(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be written: No such file or directory"):
        checkpoint.save(tmp_path / "nowhere" / "c", 1, {})


def test_remove_also_clears_what_a_killed_writer_left(tmp_path: Path) -> None:
    path = tmp_path / "run[1].checkpoint"
    checkpoint.save(path, {"step": 1}, {})
    (tmp_path / f".{path.name}.0123456789abcdef.tmp").write_bytes(b"half")
    (tmp_path / ".other.checkpoint.0123456789abcdef.tmp").write_bytes(b"another run's")
    checkpoint.remove(path)
    assert [left.name for left in tmp_path.iterdir()] == [".other.checkpoint.0123456789abcdef.tmp"]
