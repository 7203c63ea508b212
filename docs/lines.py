"""What the tables have in common: the lines in results/ that they are made of, and how figures are written."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from normscope.benchmark import results
from normscope.benchmark.results import Result
from normscope.tables.layout import shown
from normscope.tables.names import title

ROOT = Path(__file__).parent.parent
Task = tuple[str, int]  # data set and normal class
T, K = TypeVar("T"), TypeVar("K")


def lines(name: str) -> list[Result]:
    """Those that did not fail; none of a file that does not exist."""
    return [line for line in results.read(ROOT / "results" / name) if line["error"] is None]


def newest(some: Sequence[Result]) -> list[Result]:
    """Those of the latest run: of the commit that the last line is of."""
    return [line for line in some if line["commit"] == some[-1]["commit"]]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """In the order in which the keys first occur."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def task_of(line: Result) -> Task:
    return line["dataset"], line["normal"]


def tasks_of(some: Iterable[Result]) -> list[Task]:
    return sorted(set(map(task_of, some)), key=lambda task: (task[0] != "fashion-mnist", task))


def settings_of(*names: str) -> Callable[[Result], tuple]:
    return lambda line: tuple(line["settings"][name] for name in names)


def auroc(line: Result) -> float:
    return line["metrics"]["auroc"]


def percent(value: float) -> str:
    return shown(100 * value)


def mean_and_sd(values: Sequence[float], digits: int = 1) -> str:
    """In per cent, the SD only of several values."""
    if not values:
        return shown(None)
    sd = f" ± {100 * statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return percent(statistics.mean(values)) + sd


def by_task(named: Mapping[str, Sequence[Result]], corner: str = "") -> list[list[str]]:
    """The header, then AUROC of each name's lines: a column for each task, and the mean if no task is missing.

    Over several seeds, mean and SD. † marks collapsed codes.
    """
    tasks = tasks_of(line for some in named.values() for line in some)
    table = [[corner, *(title(*task) for task in tasks), "mean"]]
    for name, some in named.items():
        own = grouped(some, task_of)
        mean = shown(None)
        if len(own) == len(tasks):
            mean = percent(statistics.mean(statistics.mean(map(auroc, seeds)) for seeds in own.values()))
        table.append([name, *(over_seeds(own.get(task, [])) for task in tasks), mean])
    return table


def over_seeds(some: Sequence[Result]) -> str:
    return mean_and_sd([*map(auroc, some)]) + "†" * any(line.get("health", "ok") != "ok" for line in some)
