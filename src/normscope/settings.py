"""A method's settings: one frozen dataclass, read from `--set key=value`, from JSON or from Python values.

A field is an int, float, bool, str, Literal, tuple of one of these, or a union of them; or a swappable part: a field
whose default is a function. A part is given as a function or by its name, and the choices are the functions in the
`__all__` of the module that holds the default.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import numbers
import sys
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard, TypeVar, Union, get_args, get_origin, get_type_hints

from normscope.errors import SettingError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    S = TypeVar("S", bound=DataclassInstance)
    T = TypeVar("T")

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
Parts = Mapping[str, Callable[..., object]]  # the choices for a swappable part, by name
Kinds = Sequence[object]  # what a field may be: each a type, a Literal or Parts
TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse(cls: type[S], assignments: Sequence[str]) -> S:
    """Settings from the command line: `["beta=20", "information=jsd"]`."""
    known = fields(cls)
    values: dict[str, object] = {}
    for assignment in assignments:
        key, equals, text = (piece.strip() for piece in assignment.partition("="))
        if not equals:
            raise SettingError(f"setting {assignment!r} has no value; write it as key=value")
        if key in values:
            raise SettingError(f"setting {key!r} is given twice; give it once")
        values[key] = convert(read, key, text, known)
    return build(cls, values)


def build(cls: type[S], values: Mapping[str, object]) -> S:
    """Settings from Python values or from what `to_json` returned; a field that is not named keeps its default.

    A class may have PRESETS, values by the name that its field `preset` is given: they replace the defaults.
    """
    known = fields(cls)
    presets: Mapping[object, Mapping[str, object]] = getattr(cls, "PRESETS", {})
    checked = {key: convert(check, key, value, known) for key, value in values.items()}
    preset = {key: value for key, value in presets.get(checked.get("preset"), {}).items() if key in known}
    return cls(**{**preset, **checked})


def to_json(settings: DataclassInstance) -> dict[str, JSON]:
    """Every field, functions as names and tuples as lists; `build` reads it back."""
    known = fields(type(settings))
    # Building again refuses what could not be read back, such as a function of the caller's own.
    settings = build(type(settings), {key: getattr(settings, key) for key in known})
    return {key: write(getattr(settings, key), kinds) for key, kinds in known.items()}


def is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_counts(settings: DataclassInstance) -> None:
    """A whole number that is positive by default counts something (images, epochs, channels …): there must be one."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        least = 0 if field.name.startswith("least_") else 1
        if is_whole(field.default) and field.default > 0 and is_whole(value) and value < least:
            raise SettingError(f"setting {field.name!r} cannot be {value}; give a whole number from {least} on")


def fields(cls: type[DataclassInstance]) -> dict[str, Kinds]:
    """What each field of the dataclass may be."""
    hints = get_type_hints(cls)
    known = {}
    for field in dataclasses.fields(cls):
        kinds = members(hints[field.name])
        if inspect.isfunction(field.default):
            kinds = [*(kind for kind in kinds if kind is NoneType), parts_beside(field.default)]
        known[field.name] = kinds
    return known


def members(hint: object) -> Kinds:
    """The members of a union, those that only few values match first: `str | None` reads "none" as None."""
    kinds: Kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else [hint]
    exact: list[object] = [kind for kind in kinds if kind is NoneType or get_origin(kind) is Literal]
    return exact + [kind for kind in kinds if kind not in exact]


def parts_beside(default: Callable[..., object]) -> Parts:
    module = sys.modules[default.__module__]
    listed = {name: getattr(module, name) for name in module.__all__}
    return {name: part for name, part in listed.items() if inspect.isfunction(part)}


def convert(how: Callable[[T, object], object], key: str, value: T, known: Mapping[str, Kinds]) -> object:
    """`how(value, kind)` for the first kind that takes the value."""
    if key not in known:
        close = difflib.get_close_matches(key, known, n=1)
        question = f"did you mean {close[0]!r}? " if close else ""
        raise SettingError(f"no setting {key!r}; {question}choose from {', '.join(known) or 'none: there are none'}")
    try:
        return first_of(how, value, known[key])
    except ValueError as error:
        raise SettingError(f"setting {key!r} cannot be {value!r}; give {describe(known[key])}") from error


def first_of(how: Callable[[T, object], object], value: T, kinds: Kinds) -> object:
    for kind in kinds:
        try:
            return how(value, kind)
        except (ValueError, OverflowError):
            continue
    raise ValueError(value)


def read(text: str, kind: object) -> object:
    """The text as a value of this kind."""
    if kind is NoneType and text.lower() == "none":
        return None
    if get_origin(kind) is Literal:
        for choice in get_args(kind):
            if str(choice) == text:
                return choice
    if kind is bool and text.lower() in TRUTH:
        return TRUTH[text.lower()]
    if kind is int or kind is float:
        return int(text) if kind is int else float(text)
    if get_origin(kind) is tuple:
        inner = members(get_args(kind)[0])
        return tuple(first_of(read, piece.strip(), inner) for piece in text.split(",")) if text else ()
    if kind is str or isinstance(kind, Mapping):
        return text
    raise ValueError(text)


def check(value: object, kind: object) -> object:
    """The value itself if it is of this kind; but an int becomes a float, a name a part and a list a tuple."""
    if kind is NoneType and value is None:
        return None
    if get_origin(kind) is Literal:
        for choice in get_args(kind):
            if type(choice) is type(value) and choice == value:
                return value
    if isinstance(kind, Mapping):
        for name, part in kind.items():
            if value is part or value == name:
                return part
    if (kind is bool and isinstance(value, bool)) or (kind is str and isinstance(value, str)):
        return value
    if kind is int and not isinstance(value, bool) and isinstance(value, numbers.Integral):
        return int(value)
    if kind is float and not isinstance(value, bool) and isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(first_of(check, item, members(get_args(kind)[0])) for item in value)
    raise ValueError(value)


def write(value: object, kinds: Kinds) -> JSON:
    """A checked value as JSON."""
    if isinstance(value, tuple):
        return [write(item, ()) for item in value]
    if inspect.isfunction(value):
        return next(str(name) for kind in kinds if isinstance(kind, Mapping) for name in kind if kind[name] is value)
    assert value is None or isinstance(value, bool | int | float | str)
    return value


def describe(kinds: Kinds) -> str:
    """What is allowed: "a finite number or 'auto'"."""
    return " or ".join(describe_one(kind) for kind in reversed(kinds))


def describe_one(kind: object) -> str:
    if isinstance(kind, Mapping):
        return f"one of {', '.join(kind)}"
    if get_origin(kind) is Literal:
        return " or ".join(repr(choice) for choice in get_args(kind))
    if get_origin(kind) is tuple:
        return f"a comma-separated list, each {describe(members(get_args(kind)[0]))}"
    words = {int: "a whole number", float: "a finite number", bool: "true or false", str: "text", NoneType: "none"}
    assert kind in words, f"settings cannot hold {kind}"
    return words[kind]
