"""Rows of results as values with types: what a table and a comparison need of them, checked line by line."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from normscope.errors import DatasetError
from normscope.evaluation import results
from normscope.settings import JSON

T = TypeVar("T")

LOWER_IS_BETTER = {"fpr95"}


class Variant(NamedTuple):
    """What one line of a table has in common: a method and all that was chosen for it, but no class and no seed."""

    method: str
    settings: str  # JSON with sorted keys, so that equal ones compare equal
    budget: float | None
    epochs: int | None
    test_images: int | None

    def chosen(self) -> dict[str, JSON]:
        chosen: dict[str, JSON] = json.loads(self.settings)
        return chosen


class Row(NamedTuple):
    """One cell, and what was found for one metric, a share between 0 and 1."""

    dataset: str
    variant: Variant
    normal: int
    seed: int
    value: float | None  # None: it failed
    interval: tuple[float, float] | None
    health: str
    error: str | None

    def cell(self) -> tuple[object, ...]:
        return self[:4]


def read(paths: Iterable[Path], metric: str) -> list[Row]:
    """The rows of all files; of a cell that was measured twice, the last."""
    cells: dict[tuple[object, ...], Row] = {}
    for path in paths:
        if not path.is_file():
            raise DatasetError(f"{path} is no file; give one that `normscope bench` wrote")
        for number, line in enumerate(results.read(path), start=1):
            try:
                row = checked(line, metric)
            except ValueError as error:
                raise DatasetError(f"{path} line {number} {error}; give a file that `normscope bench` wrote") from None
            cells.pop(row.cell(), None)
            cells[row.cell()] = row
    return list(cells.values())


def checked(row: Mapping[str, JSON], metric: str) -> Row:
    """Raises a ValueError that continues "line 7 …"."""
    error = optional(row, "error", str)
    return Row(
        dataset=required(row, "dataset", str),
        variant=variant(row),
        normal=required(row, "normal", int),
        seed=required(row, "seed", int),
        value=None if error is not None else value(row, metric),
        interval=None if error is not None else interval(row, metric),
        health=optional(row, "health", str) or "unknown",
        error=error,
    )


def variant(row: Mapping[str, JSON]) -> Variant:
    return Variant(
        method=required(row, "method", str),
        settings=json.dumps(required(row, "settings", dict), sort_keys=True),
        budget=optional(row, "budget", float),
        epochs=optional(row, "epochs", int),
        test_images=optional(row, "test_images", int),
    )


def value(row: Mapping[str, JSON], metric: str) -> float:
    metrics = required(row, "metrics", dict)
    if metric not in metrics:
        raise ValueError(f"has no metric {metric!r} but {', '.join(metrics)}")
    return required(metrics, metric, float)


def interval(row: Mapping[str, JSON], metric: str) -> tuple[float, float] | None:
    ends = (optional(row, "intervals", dict) or {}).get(metric)
    if ends is None:
        return None
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, int | float) for end in ends):
        raise ValueError(f"has {ends!r} as an interval and not two numbers")
    return float(ends[0]), float(ends[1])


def required(row: Mapping[str, JSON], name: str, kind: type[T]) -> T:
    found = optional(row, name, kind)
    if found is None:
        raise ValueError(f"has no {name!r}")
    return found


def optional(row: Mapping[str, JSON], name: str, kind: type[T]) -> T | None:
    """None if there is none; a whole number is a float, too."""
    found = row.get(name)
    if kind is float and isinstance(found, int) and not isinstance(found, bool):
        found = float(found)
    if found is None or (isinstance(found, kind) and not isinstance(found, bool)):
        return found
    raise ValueError(f"has {found!r} as {name!r}, which is no {kind.__name__}")
