"""The model file: one .safetensors with a JSON card in its header, checksummed, and no code inside."""

import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from normscope import sealed
from normscope.errors import ModelFileError
from normscope.files import write_atomically
from normscope.settings import JSON

FORMAT = "1"


def save(path: str | Path, tensors: Mapping[str, Tensor], card: Mapping[str, JSON]) -> str:
    """Write the model file atomically and return its checksum; equal input gives an equal file."""
    text = json.dumps(card, sort_keys=True, separators=(",", ":"), allow_nan=False)
    data, checksum = sealed.seal(tensors, {"normscope": FORMAT, "card": text})
    try:
        write_atomically(Path(path), data)
    except OSError as error:
        raise ModelFileError(
            f"{path} cannot be written: {error.strerror}; choose a folder that exists, is writable and has room"
        ) from error
    return checksum


def load(path: str | Path) -> tuple[dict[str, Tensor], dict[str, JSON], str]:
    """Tensors, card and checksum of a file of which every bit is as it was saved."""
    try:
        tensors, texts, checksum = sealed.read(Path(path))
    except sealed.SealError as error:
        raise ModelFileError(f"{path} {error}; give a model that `normscope fit` wrote") from error
    if "normscope" not in texts or "card" not in texts:
        raise ModelFileError(f"{path} is not a normscope model; give a model that `normscope fit` wrote")
    if texts["normscope"] != FORMAT:
        raise ModelFileError(
            f"{path} has format {texts['normscope']}, this normscope reads {FORMAT}; upgrade normscope or fit again"
        )
    return tensors, read_json(path, texts["card"]), checksum


def read_card(path: str | Path) -> tuple[dict[str, JSON], str]:
    """Card and checksum, verified as in `load`."""
    _, card, checksum = load(path)
    return card, checksum


def read_json(path: str | Path, text: str) -> dict[str, JSON]:
    try:
        card = json.loads(text)
    except (ValueError, RecursionError):
        card = None
    if not isinstance(card, dict):
        raise ModelFileError(f"{path} has a card that is not JSON; give a model that `normscope fit` wrote")
    return card
