import json
from pathlib import Path

import pytest
import safetensors.torch
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


def flipped(data, position, bit):
    return data[:position] + bytes([data[position] ^ (1 << bit)]) + data[position + 1 :]


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


def test_any_safetensors_reader_can_open_it(model):
    with safetensors.safe_open(model, "pt") as file:
        assert json.loads(file.metadata()["card"]) == CARD
        assert torch.equal(file.get_tensor("weight"), TENSORS["weight"])


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


def test_every_single_bit_flip_is_refused(model):
    data = model.read_bytes()
    assert len(data) < 20_000
    for position in range(len(data)):
        for bit in range(8):
            with pytest.raises(sealed.SealError):
                sealed.unseal(flipped(data, position, bit))
    sealed.unseal(data)


def test_bit_flips_all_over_the_file_are_refused_when_loading(model):
    data = model.read_bytes()
    for position in range(0, len(data), 3):
        model.write_bytes(flipped(data, position, position % 8))
        with pytest.raises(ModelFileError):
            artifact.load(model)
    model.write_bytes(data)
    artifact.load(model)


def test_every_truncation_and_any_addition_is_refused(model):
    data = model.read_bytes()
    for length in range(len(data)):
        with pytest.raises(sealed.SealError):
            sealed.unseal(data[:length])
    model.write_bytes(data + b"\0")
    assert "was changed or damaged after it was saved" in refusal(model)


def test_damage_is_named(model):
    data = model.read_bytes()
    model.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert "was changed or damaged after it was saved" in refusal(model)
    with pytest.raises(ModelFileError, match="was changed or damaged"):
        artifact.read_card(model)
    model.write_bytes(data[:100])
    assert "was cut short" in refusal(model)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(100), "is not a safetensors file"),
        (b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x06weight\x94K\x01s.", "is not a safetensors file"),
        (b"{}", "is not a safetensors file"),
        ((2**63).to_bytes(8, "little") + b"{}", "is not a safetensors file"),
        ((90_000_000).to_bytes(8, "little") + b"{}", "was cut short"),
        ((100_000).to_bytes(8, "little") + b'{"a":' * 20_000, "has a damaged header"),
        ((20).to_bytes(8, "little") + b'{"__metadata__":[1]}', "has a damaged header"),
        (safetensors.torch.save(TENSORS), "was not written by normscope"),
        (safetensors.torch.save(TENSORS, {"format": "pt"}), "was not written by normscope"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path, data, says):
    path = tmp_path / "file"
    path.write_bytes(data)
    assert f"{path} {says}; give a model that `normscope fit` wrote" == refusal(path)


def test_missing_file_folder_and_device(tmp_path):
    assert "does not exist" in refusal(tmp_path / "nowhere")
    assert "is a folder" in refusal(tmp_path)
    assert "is not a regular file" in refusal(Path("/dev/null"))


def test_unreadable_file(model, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read: Permission denied" in refusal(model)


def test_sealed_file_of_another_kind_or_a_newer_format(tmp_path, monkeypatch):
    path = tmp_path / "m"
    data, _ = sealed.seal(TENSORS, {"normscope_checkpoint": "1"})
    path.write_bytes(data)
    assert "is not a normscope model" in refusal(path)
    with monkeypatch.context() as patch:
        patch.setattr(artifact, "FORMAT", "2")
        artifact.save(path, TENSORS, CARD)
    assert "has format 2, this normscope reads 1; upgrade normscope" in refusal(path)


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
