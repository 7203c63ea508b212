import json
import math
import random

import pytest
import torch

from normscope import artifact, sealed
from normscope.errors import ModelFileError

CARD = {
    "method": "base",
    "settings": {"beta": 0.1, "widths": [1, 2]},
    "note": 'quoted "sha256":"' + "0" * 64 + '"',
    "ü": None,
}
TENSORS = {"weight": torch.arange(6.0).reshape(2, 3), "steps": torch.tensor(7), "flags": torch.tensor([True, False])}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    artifact.save(path, TENSORS, CARD)
    return path


def refusal(path):
    with pytest.raises(ModelFileError) as caught:
        artifact.load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


def test_round_trip(tmp_path):
    path = tmp_path / "m.safetensors"
    checksum = artifact.save(path, TENSORS, CARD)
    tensors, card, again = artifact.load(path)
    assert card == CARD
    assert checksum == again
    assert artifact.read_card(str(path)) == (CARD, checksum)
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_no_tensors_at_all(tmp_path):
    artifact.save(tmp_path / "m", {}, {})
    assert artifact.load(tmp_path / "m")[:2] == ({}, {})


def test_views_and_shared_storage_are_saved_by_value(tmp_path):
    base = torch.arange(24.0)
    shaped = base.reshape(1, 2, 3, 4)
    given = {
        "base": base,
        "same": base,
        "part": base[3:9],
        "transposed": base.reshape(4, 6).T,
        "channels_last": shaped.to(memory_format=torch.channels_last),
        "expanded": base[:1].expand(5),
        "parameter": torch.nn.Parameter(base),
    }
    artifact.save(tmp_path / "m", given, {})
    tensors, _, _ = artifact.load(tmp_path / "m")
    assert all(torch.equal(tensors[name], tensor) for name, tensor in given.items())


def test_equal_input_gives_equal_bytes(tmp_path):
    artifact.save(tmp_path / "a", TENSORS, CARD)
    artifact.save(tmp_path / "b", dict(reversed(TENSORS.items())), dict(reversed(CARD.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    # The header in full, so that a change of order between two processes would show too.
    data = (tmp_path / "a").read_bytes()
    header = data[8 : 8 + int.from_bytes(data[:8], "little")].decode().rstrip()
    assert header == json.dumps(json.loads(header), sort_keys=True, separators=(",", ":"))


def test_damage_is_named(model):
    data = model.read_bytes()
    model.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert "was changed or damaged after it was saved" in refusal(model)
    with pytest.raises(ModelFileError, match="was changed or damaged"):
        artifact.read_card(model)
    model.write_bytes(data[:100])
    assert refusal(model) == f"{model} was cut short; give a model that `normscope fit` wrote"


def test_the_header_comes_before_any_tensor(model, monkeypatch):
    """So that a loader can compare names, dtypes and shapes with those of its network before either takes memory."""
    monkeypatch.setattr(torch, "empty", None)
    card, header = artifact.read_header(model)
    assert card == CARD
    assert header.tensors == {
        name: sealed.TensorInfo(tensor.dtype, tuple(tensor.shape)) for name, tensor in TENSORS.items()
    }
    artifact.verify(model, header)
    monkeypatch.undo()
    assert artifact.read_tensors(model, header)["weight"].equal(TENSORS["weight"])


def test_the_card_is_read_without_the_tensors(model, monkeypatch):
    monkeypatch.setattr(torch, "empty", None)
    assert artifact.read_card(model)[0] == CARD


@pytest.mark.parametrize(
    "bad",
    [
        torch.tensor([[0.0, 1.0], [0.0, math.nan]]),
        torch.tensor(math.inf),
        torch.tensor([-math.inf], dtype=torch.float16),
        torch.tensor([0.0, math.nan], dtype=torch.bfloat16),
        torch.tensor([0.0, math.nan], dtype=torch.float64),
        torch.tensor([complex(0, math.nan)]),
        torch.cat([torch.zeros(2**20 + 1), torch.tensor([math.nan])]),
    ],
)
def test_a_tensor_that_is_not_finite_is_neither_saved_nor_loaded(tmp_path, monkeypatch, bad):
    path = tmp_path / "m"
    for name in ("weights.last", ""):
        tensors = {**TENSORS, name: bad}
        with pytest.raises(ModelFileError, match=f"m was not written: .* tensor '{name}' has NaN or infinite values"):
            artifact.save(path, tensors, CARD)
        assert list(tmp_path.iterdir()) == []
        with monkeypatch.context() as patch:
            patch.setattr(artifact, "first_not_finite", lambda tensors: None)
            artifact.save(path, tensors, CARD)
        assert f"has NaN or infinite values in its tensor '{name}'" in refusal(path)
        path.unlink()


def test_a_model_that_is_too_large_is_neither_saved_nor_loaded(tmp_path, model, monkeypatch):
    size = model.stat().st_size
    monkeypatch.setattr(artifact, "LARGEST", size)
    artifact.save(tmp_path / "m", TENSORS, CARD)
    monkeypatch.setattr(artifact, "LARGEST", size - 1)
    with pytest.raises(
        ModelFileError, match=f"n was not written: it would have {size} bytes, more than the {size - 1}"
    ):
        artifact.save(tmp_path / "n", TENSORS, CARD)
    assert f"has {size} bytes, more than the {size - 1} that are read" in refusal(tmp_path / "m")
    assert not (tmp_path / "n").exists()


def sealed_as(path, texts):
    path.write_bytes(b"".join(sealed.seal(TENSORS, texts)[0]))
    return path


def test_sealed_file_of_another_kind(tmp_path):
    for texts in ({"normscope_checkpoint": "1"}, {"normscope": artifact.FORMAT}, {"card": "{}"}):
        assert "is not a normscope model" in refusal(sealed_as(tmp_path / "m", texts))


def test_an_older_or_newer_format(tmp_path):
    path = tmp_path / "m"
    for older in ("1", "2", "3", "4"):
        said = refusal(sealed_as(path, {"normscope": older, "card": "{}"}))
        assert said == f"{path} was written by an older normscope (format {older}); fit it again"
    newer = refusal(sealed_as(path, {"normscope": "7", "card": "{}"}))
    assert newer == f"{path} has format '7', this normscope reads '6'; upgrade normscope or fit it again"
    assert len(refusal(sealed_as(path, {"normscope": "\n" * 1000, "card": "{}"}))) < 200


@pytest.mark.parametrize(
    "card",
    [
        "",
        "{",
        "[]",
        "null",
        '"text"',
        '{"a":1,"a":2}',
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":1e999}',
        '{"a": 1}',
        '{"a":' * 100_000,
        '{"a":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"a":' + "9" * 10_000 + "}",
    ],
)
def test_a_card_that_was_never_saved_is_refused(tmp_path, card):
    assert "has a damaged card; give a model" in refusal(
        sealed_as(tmp_path / "m", {"normscope": artifact.FORMAT, "card": card})
    )


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_bit_flips_all_over_the_file_are_refused_in_one_line(model, count):
    data = model.read_bytes()
    for bit in random.Random(count).sample(range(8 * len(data)), count):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        model.write_bytes(flipped)
        refusal(model)
    model.write_bytes(data)
    artifact.load(model)


def test_where_it_cannot_be_written_says_so_and_leaves_nothing(tmp_path, monkeypatch):
    with pytest.raises(ModelFileError, match="No such file or directory; choose a folder that exists"):
        artifact.save(tmp_path / "nowhere" / "m", TENSORS, CARD)
    with pytest.raises(ModelFileError, match="Is a directory"):
        artifact.save(tmp_path, TENSORS, CARD)

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ModelFileError, match="No space left on device"):
        artifact.save(tmp_path / "m", TENSORS, CARD)
    assert list(tmp_path.iterdir()) == []


def test_a_card_that_is_not_json_is_our_own_bug(tmp_path):
    with pytest.raises(ValueError):
        artifact.save(tmp_path / "m", {}, {"auroc": float("nan")})
    assert list(tmp_path.iterdir()) == []
