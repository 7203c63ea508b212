"""The figures that the paper prints, as data: paper.json holds its Tables 1 to 3, in per cent, as they are printed."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypedDict


class Row(NamedTuple):
    """One line of Table 3: AUROC in per cent, one class after the other."""

    classes: tuple[float, ...]
    mean: float
    sd: float
    borrowed_from: str | None  # as the caption says; None: measured by the authors, or OCGAN, where it says nothing
    note: str | None  # where the printed mean or SD is not that of the printed classes


class Summary(TypedDict):
    """Mean over classes, and SD over classes (Table 1) or runs (Table 2), in per cent."""

    mean: float
    sd: float | None


class Estimators(TypedDict):
    """One line of Table 1."""

    information: str
    entropy: str
    cifar10: Summary
    cifar100: Summary


class Scoring(TypedDict):
    """One line of Table 2."""

    score: str
    cifar10: Summary
    cifar100: Summary


class Printed(TypedDict):
    classes: list[float]
    mean: float
    sd: float
    note: str | None


class Paper(TypedDict):
    notes: list[str]
    borrowed_from: dict[str, str]
    table_1: list[Estimators]
    table_2: list[Scoring]
    table_3: dict[str, dict[str, Printed]]


@cache
def paper() -> Paper:
    """Everything in the file."""
    read: Paper = json.loads(Path(__file__).with_name("paper.json").read_text(encoding="utf-8"))
    return read


def datasets() -> list[str]:
    return list(paper()["table_3"])


def class_count(dataset: str) -> int:
    """How many classes the paper's columns have; 0 where it has nothing of the data set."""
    return max((len(printed["classes"]) for printed in paper()["table_3"].get(dataset, {}).values()), default=0)


def methods(dataset: str) -> list[str]:
    """In the order of the table; none where the paper has nothing of the data set."""
    return list(paper()["table_3"].get(dataset, {}))


def row(dataset: str, method: str) -> Row | None:
    """What the paper prints for a method, borrowed or its own; None where it prints nothing."""
    printed = paper()["table_3"].get(dataset, {}).get(method)
    if printed is None:
        return None
    source = paper()["borrowed_from"].get(method)
    return Row(tuple(printed["classes"]), printed["mean"], printed["sd"], source, printed["note"])
