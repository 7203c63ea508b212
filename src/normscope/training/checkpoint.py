"""Checkpoints of an unfinished training run: checksummed, without pickle; the previous one is kept.

State is what `state_dict()` of modules and optimizers returns: nested dicts, lists and tuples of tensors, numbers and
strings. The tensors become those of a sealed .safetensors; the structure around them is JSON in its header.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from torch import Tensor

from normscope import sealed
from normscope.errors import CheckpointError
from normscope.files import followed, leftovers, previous, write_atomically
from normscope.settings import JSON

FORMAT = "1"
Tree: TypeAlias = "bool | int | float | str | Tensor | Sequence[Tree] | Mapping[str, Tree] | Mapping[int, Tree] | None"


def save(path: Path, state: Tree, facts: Mapping[str, JSON]) -> None:
    """Write `state` atomically; `facts` (settings, data checksum, seed …) say which run it belongs to."""
    tensors: dict[str, Tensor] = {}
    skeleton = json.dumps(encode(state, tensors))
    chunks, _ = sealed.seal(
        tensors, {"normscope_checkpoint": FORMAT, "skeleton": skeleton, "facts": json.dumps(facts, sort_keys=True)}
    )
    try:
        write_atomically(path, lambda file: file.writelines(chunks), keep_previous=True)
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {path} cannot be written: {error.strerror}; choose a folder that is writable and has room"
        ) from error


def load(
    path: Path,
    expect: Mapping[str, JSON] | None = None,
    say: Callable[[str], None] = lambda text: None,
    check: Callable[[Tree], None] = lambda state: None,
) -> tuple[Tree, dict[str, JSON]]:
    """State, on the CPU, and facts of the checkpoint at `path`, or of the previous one if that is damaged: `say` so.

    Facts that differ from those in `expect` are an error. A state of which `check` raises ValueError counts as damaged.
    """
    try:
        return usable(path, path, expect, check)
    except sealed.SealError as error:
        try:
            found = usable(previous(path), path, expect, check)
        except sealed.SealError:
            raise CheckpointError(f"checkpoint {path} {error}; start anew") from error
        say(f"checkpoint {path} {error}; training goes on from the one before it")
        return found


def usable(
    file: Path, path: Path, expect: Mapping[str, JSON] | None, check: Callable[[Tree], None]
) -> tuple[Tree, dict[str, JSON]]:
    """State and facts in `file`, the newest or the previous one of the checkpoint at `path`."""
    state, facts = read(file)
    if expect is not None:
        difference = first_difference(facts, json.loads(json.dumps(expect)))
        if difference:
            raise CheckpointError(f"checkpoint {path} is of another run ({difference}); delete it or start anew")
    try:
        check(state)
    except ValueError as error:
        raise sealed.SealError(f"holds no state of this training ({error})") from error
    return state, facts


def exists(path: Path) -> bool:
    """Whether there is a checkpoint to load, intact or not."""
    return path.exists() or previous(path).exists()


def remove(path: Path) -> None:
    """Delete the checkpoint, the previous one and what a killed process left half-written; the newest goes last.

    If `path` is a link, the file that it leads to is deleted, and the link stays.
    """
    for part in (*leftovers(path), previous(path), followed(path)):
        part.unlink(missing_ok=True)


def read(path: Path) -> tuple[Tree, dict[str, JSON]]:
    header, tensors = sealed.read(path)
    if header.texts.get("normscope_checkpoint") != FORMAT:
        raise sealed.SealError(f"is not a checkpoint of format {FORMAT}")
    try:
        state, facts = decode(json.loads(header.texts["skeleton"]), tensors), json.loads(header.texts["facts"])
        if not isinstance(facts, dict):
            raise ValueError("facts have names")
        return state, facts
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise sealed.SealError("has a damaged header") from error


def encode(tree: Tree, tensors: dict[str, Tensor]) -> JSON:
    """The tree with its tensors moved into `tensors`; {"tuple": …}, {"dict": …}, {"tensor": …} mark what JSON lacks."""
    if isinstance(tree, Tensor):
        name = str(len(tensors))
        tensors[name] = tree
        return {"tensor": name}
    if isinstance(tree, Mapping):
        assert all(type(key) in (str, int) for key in tree), f"keys must be str or int: {list(tree)}"
        return {"dict": [[key, encode(value, tensors)] for key, value in tree.items()]}
    if isinstance(tree, tuple):
        return {"tuple": [encode(value, tensors) for value in tree]}
    if isinstance(tree, list):
        return [encode(value, tensors) for value in tree]
    assert tree is None or isinstance(tree, bool | int | float | str), f"a {type(tree)} cannot be in a checkpoint"
    return tree


def decode(node: JSON, tensors: Mapping[str, Tensor]) -> Tree:
    """The inverse of `encode`."""
    match node:
        case {"tensor": str(name)}:
            return tensors[name]
        case {"dict": list(items)}:
            return {key: decode(value, tensors) for key, value in items}
        case {"tuple": list(values)}:
            return tuple(decode(value, tensors) for value in values)
        case list(values):
            return [decode(value, tensors) for value in values]
        case None | bool() | int() | float() | str():
            return node
    raise ValueError(f"unknown node {node!r}")


def first_difference(saved: JSON, now: JSON, name: str = "") -> str | None:
    """Such as "seed 1, now 2"; within dicts the entry that differs is named: "settings.beta 5, now 20"."""
    if isinstance(saved, dict) and isinstance(now, dict):
        for key in [*now, *(key for key in saved if key not in now)]:
            inner = f"{name}.{key}" if name else key
            difference = first_difference(saved.get(key, "absent"), now.get(key, "absent"), inner)
            if difference:
                return difference
        return None
    return None if saved == now else f"{name} {saved}, now {now}"
