"""How to fit: what a caller gives, checked at once, before anything is read or trained."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

import torch

from normscope.calibration import check_rate
from normscope.card import Card, size_of
from normscope.errors import SettingError
from normscope.images.size import LARGEST, SMALLEST, Size
from normscope.methods import AUTO, find, method_names, settings_of
from normscope.settings import build, check_counts, is_whole
from normscope.training.budget import seconds as budget_seconds
from normscope.training.device import choose_device
from normscope.training.method import MethodSettings

DEFAULT_BUDGET = 300.0


@dataclass(frozen=True)
class Options:
    """How to fit; `checked` makes them from what a caller gives."""

    method: str
    settings: MethodSettings
    seed: int
    budget: float | None  # seconds
    epochs: int | None
    size: Size | Literal["auto"]
    false_alarm_rate: float | None
    device: torch.device


def checked(
    method: str = "auto",
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    budget: float | str | None = None,
    epochs: int | None = None,
    size: int | Size | Literal["auto"] = "auto",
    false_alarm_rate: float | None = 0.01,
    device: str = "auto",
) -> Options:
    """The options, each checked; without a budget and epochs it is five minutes at most. 0 epochs train nothing."""
    built = build(settings_of(method), settings or {})
    check_counts(built)
    if epochs is not None and not (is_whole(epochs) and epochs >= 0):
        raise SettingError(f"epochs is {epochs!r}; give a whole number from 1 on, or 0 to train nothing")
    if not (is_whole(seed) and seed >= 0):
        raise SettingError(f"seed is {seed!r}; give a whole number from 0 on")
    if false_alarm_rate is not None:
        check_rate(false_alarm_rate)
    if budget is None and epochs is None:
        budget = DEFAULT_BUDGET
    if isinstance(budget, str):
        budget = budget_seconds(budget)
    if budget is not None and not 0 < budget < math.inf:
        raise SettingError(f"budget is {budget!r}; give seconds above 0, or a text such as 5m")
    return Options(
        method=method,
        settings=built,
        seed=int(seed),
        budget=None if budget is None else float(budget),
        epochs=None if epochs is None else int(epochs),
        size=checked_size(size, method),
        false_alarm_rate=false_alarm_rate,
        device=choose_device(device),
    )


def checked_size(size: object, method: str) -> Size | Literal["auto"]:
    """Of one number, a square."""
    if isinstance(size, str) and size == "auto":
        return "auto"
    sides = size if isinstance(size, tuple | list) else (size, size)
    if len(sides) != 2 or not all(is_whole(side) and SMALLEST <= side <= LARGEST for side in sides):
        raise SettingError(
            f"size is {size!r}; give auto, or pixels from {SMALLEST} to {LARGEST}: one number for a square, or height "
            "and width"
        )
    height, width = map(int, sides)
    if height != width and method != AUTO and not find(method).rectangles:
        raise SettingError(
            f"size is {height}x{width}, and the method {method} takes squares alone; give one number, or use one of "
            f"{', '.join(rectangular_methods())}"
        )
    return height, width


def rectangular_methods() -> list[str]:
    """Those that take images that are not square."""
    return [name for name in method_names() if find(name).rectangles]


def options_of(card: Card, device: str) -> Options:
    """Those that a model card has: with them a fit can be repeated."""
    training, calibration = card["training"], card["calibration"]
    return checked(
        card["method"],
        settings=card["settings"],
        seed=training["seed"],
        budget=training["budget"],
        epochs=training["epochs"],
        size=size_of(card),
        false_alarm_rate=cast(float, calibration["rate"]) if calibration else None,
        device=device,
    )
