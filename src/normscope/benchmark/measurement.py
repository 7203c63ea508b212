"""A result with types: read from its JSON line and checked, so that whoever uses it need not doubt it."""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from normscope.benchmark import results
from normscope.benchmark.cell import Cell
from normscope.errors import DatasetError
from normscope.settings import JSON

T = TypeVar("T")
Interval = tuple[float, float]

MOST_CLASSES = 10_000
KINDS = {str: "text", int: "whole number", float: "number", dict: "object", list: "list"}


@dataclass(frozen=True)
class Measurement:
    """What was measured for a cell: metrics and their confidence intervals are shares between 0 and 1.

    A cell that failed has an `error` and no metrics. `data` is the checksum of the data set; None in old results.
    """

    cell: Cell
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval]
    health: str
    error: str | None
    data: str | None
    source: str  # file and line

    def value(self, metric: str) -> float:
        if metric not in self.metrics:
            raise DatasetError(f"{self.source} has no metric {metric!r} but {', '.join(self.metrics) or 'none'}")
        return self.metrics[metric]


def read(path: Path) -> list[Measurement]:
    """Every line of a file of results; none if there is no file."""
    measurements = []
    for number, result in enumerate(results.read(path), start=1):
        source = f"{path} line {number}"
        try:
            measurements.append(checked(result, source))
        except ValueError as error:
            raise DatasetError(f"{source} {error}; give a file that `normscope bench` wrote") from None
    return measurements


def checked(result: Mapping[str, JSON], source: str) -> Measurement:
    """Raises a ValueError that continues "line 7 …"."""
    if "error" not in result:
        raise ValueError("has no 'error'")
    error = optional(result, "error", str)
    metrics = required(result, "metrics", dict) if error is None else {}
    intervals = optional(result, "intervals", dict) or {}
    return Measurement(
        cell=cell_of(result),
        metrics={name: share(metrics, name) for name in metrics},
        intervals={name: interval(intervals, name) for name in intervals},
        health=optional(result, "health", str) or "unknown",
        error=error,
        data=optional(result, "data", str),
        source=source,
    )


def cell_of(result: Mapping[str, JSON]) -> Cell:
    normal = required(result, "normal", int)
    if not 0 <= normal < MOST_CLASSES:
        raise ValueError(f"has {normal} as 'normal', which is not the number of a class")
    return Cell(
        dataset=required(result, "dataset", str),
        method=required(result, "method", str),
        normal=normal,
        seed=required(result, "seed", int),
        budget=optional(result, "budget", float),
        settings=required(result, "settings", dict),
        epochs=optional(result, "epochs", int),
        every=optional(result, "every", int),
        test_images=optional(result, "test_images", int),
    )


def share(values: Mapping[str, JSON], name: str) -> float:
    value = required(values, name, float)
    if not 0 <= value <= 1:
        raise ValueError(f"has {value} as {name!r}, which is not between 0 and 1")
    return value


def interval(intervals: Mapping[str, JSON], name: str) -> Interval:
    ends = required(intervals, name, list)
    if len(ends) != 2:
        raise ValueError(f"has {reprlib.repr(ends)} as the interval of {name!r}, which is not two numbers")
    low, high = (share({name: end}, name) for end in ends)
    return low, high


def required(values: Mapping[str, JSON], name: str, kind: type[T]) -> T:
    value = optional(values, name, kind)
    if value is None:
        raise ValueError(f"has no {name!r}")
    return value


def optional(values: Mapping[str, JSON], name: str, kind: type[T]) -> T | None:
    """None if it is null or absent; a whole number is a float, too."""
    value = values.get(name)
    if kind is float and type(value) is int:
        value = float(value)
    if value is None or type(value) is kind:
        return value
    raise ValueError(f"has {reprlib.repr(value)} as {name!r}, which is no {KINDS[kind]}")
