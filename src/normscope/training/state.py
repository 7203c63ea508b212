"""What a checkpoint of training holds, and whether contents that were read are what this training would have saved."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict, TypeGuard, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from normscope.training.checkpoint import Tree
from normscope.training.method import Method, Phase

LONGEST = 1e12  # seconds; sums of such numbers stay finite


@dataclass
class Place:
    """How far a run has come: enough, with the weights and optimisers, to go on as if it had not stopped."""

    phase: int = 0
    before: int = 0  # steps of earlier phases
    step: int = 0
    steps: int | None = None  # as planned: None while the first ones are measured
    extended: bool = False  # to all epochs of a phase that its least steps were not `enough` for
    seconds: float = 0.0
    planned_step: int = 0  # when the last plan was made: step, seconds, and progress
    planned_seconds: float = 0.0
    planned_progress: float = 0.0
    durations: list[float] = field(default_factory=list)  # of the steps since then

    def progress(self, most: int) -> float:
        """The share of the phase that is done. A new plan changes its pace from there on, so that it never jumps."""
        left = (self.steps or most) - self.planned_step
        return self.planned_progress + (1 - self.planned_progress) * (self.step - self.planned_step) / left


class State(TypedDict):
    """What a checkpoint holds."""

    method: dict[str, Tensor]
    optimizers: dict[str, dict[str, Any]]
    place: dict[str, Any]
    averages: dict[str, float]


def check_state(tree: Tree, method: Method, phases: Sequence[Phase]) -> None:
    """Raise ValueError, which says where, unless the tree has the layout of a `State` that this training saves.

    A checksum tells that a file is as it was written, not who wrote it. The weights of `method` are changed: the
    caller replaces them.
    """
    parts = entries(tree, "the state", {"method", "optimizers", "place", "averages"})
    check_layout(parts["method"], method.state_dict(), "the weights")
    place = check_place(parts["place"], len(phases))
    check_optimizers(parts["optimizers"], method.optimizers(phases[place.phase].name))
    if not all(map(is_finite, entries(parts["averages"], "averages").values())):
        raise ValueError("averages are not numbers")


def entries(tree: Tree, name: str, keys: set[str] | None = None) -> Mapping[str, Any]:
    """Named by texts, by just these if `keys` are given."""
    if not isinstance(tree, Mapping) or not all(isinstance(key, str) for key in tree):
        raise ValueError(f"{name} has no names")
    if keys is not None and set(tree) != keys:
        raise ValueError(f"{name} has other names")
    return cast(Mapping[str, Any], tree)


def check_place(tree: Tree, phases: int) -> Place:
    """Numbers that the loop can go on from: no division by zero, no step beyond the plan."""
    place = Place(**entries(tree, "place", set(asdict(Place()))))
    counts = (place.phase, place.before, place.step, place.planned_step, 0 if place.steps is None else place.steps)
    times = (place.seconds, place.planned_seconds, place.planned_progress)
    if not all(type(count) is int and 0 <= count < 2**53 for count in counts) or type(place.extended) is not bool:
        raise ValueError("place has counts that are none")
    if not isinstance(place.durations, list) or not all(map(is_seconds, (*times, *place.durations))):
        raise ValueError("place has times that are none")
    planned = place.planned_step <= place.step <= place.steps if place.steps is not None else place.planned_step == 0
    if not (planned and place.phase < phases and place.planned_progress < 1.001):
        raise ValueError("place is outside of this training")
    return place


def is_seconds(value: object) -> bool:
    return is_finite(value) and 0 <= value < LONGEST


def is_finite(value: object) -> TypeGuard[float]:
    return type(value) is float and math.isfinite(value)


def check_optimizers(tree: Tree, optimizers: Mapping[str, Optimizer]) -> None:
    """Those of the phase; a parameter that has not been updated yet has no state."""
    for name, saved in entries(tree, "optimizers", set(optimizers)).items():
        what, expected = f"optimizer {name}", after_a_step(optimizers[name])
        parts = entries(saved, what, {"state", "param_groups"})
        if not isinstance(parts["state"], Mapping) or not parts["state"].keys() <= expected["state"].keys():
            raise ValueError(f"{what} has other parameters")
        check_layout(parts["state"], {key: expected["state"][key] for key in parts["state"]}, what)
        check_settings(parts["param_groups"], expected["param_groups"], what)


def after_a_step(optimizer: Optimizer) -> dict[str, Any]:
    """Its state once every parameter has been updated: by zero gradients, on which the layout does not depend."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    for weight in weights:
        weight.grad = None
    return optimizer.state_dict()


def check_settings(saved: Tree, fresh: Sequence[Mapping[str, Any]], name: str) -> None:
    """Equal but for the learning rate, which is set before every step."""
    if not isinstance(saved, list) or len(saved) != len(fresh):
        raise ValueError(f"{name} has other groups")
    for one, other in zip(saved, fresh, strict=True):
        expected = {**other, "initial_lr": other["lr"], "lr": None}
        found = {**entries(one, name, set(expected)), "lr": None}
        check_layout(found, expected, name)
        if found != expected:
            raise ValueError(f"{name} has other settings")


def check_layout(tree: Any, like: Any, name: str) -> None:
    """Equal types, keys and lengths; tensors of equal type and shape."""
    if isinstance(like, Tensor):
        same = isinstance(tree, Tensor) and (tree.dtype, tree.shape) == (like.dtype, like.shape)
        inner: Sequence[tuple[object, object, object]] = ()
    elif isinstance(like, Mapping):
        same = isinstance(tree, Mapping) and tree.keys() == like.keys()
        inner = [(key, tree[key], like[key]) for key in like] if same else ()
    elif isinstance(like, list | tuple):
        same = type(tree) is type(like) and len(tree) == len(like)
        inner = list(zip(range(len(like)), tree, like, strict=True)) if same else ()
    else:
        same, inner = type(tree) is type(like), ()
    if not same:
        raise ValueError(f"another layout of {name}")
    for key, part, other in inner:
        check_layout(part, other, f"{name}: {key}")
