"""The figures that the paper prints: Tables 1 to 3, in per cent, misprints included; paper.json holds them."""

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypedDict


class PublishedRow(NamedTuple):
    """One line of Table 3: AUROC in per cent, one class after the other."""

    classes: tuple[float, ...]
    mean: float
    sd: float
    borrowed_from: str | None  # according to the caption; None: measured by the authors, or unknown (OCGAN)
    note: str | None  # says how the printed mean or SD contradicts the printed classes


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
    """How many classes the paper has figures for; 0 for a data set that it lacks."""
    return max((len(printed["classes"]) for printed in paper()["table_3"].get(dataset, {}).values()), default=0)


def methods(dataset: str) -> list[str]:
    """In the order of the table; none for a data set that the paper lacks."""
    return list(paper()["table_3"].get(dataset, {}))


def row(dataset: str, method: str) -> PublishedRow | None:
    """What the paper prints for a method, measured by its authors or borrowed; None if nothing."""
    printed = paper()["table_3"].get(dataset, {}).get(method)
    if printed is None:
        return None
    source = paper()["borrowed_from"].get(method)
    return PublishedRow(tuple(printed["classes"]), printed["mean"], printed["sd"], source, printed["note"])
