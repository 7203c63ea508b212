"""Tables from rows of results: one for each data set, a line for each variant of a method, beside the paper's figures.

Figures are in per cent: a class is the mean over its seeds, the SD that of a sample over classes, as in the paper.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev

from normscope.errors import SettingError
from normscope.evaluation import paper
from normscope.evaluation.rows import LOWER_IS_BETTER, Row, Variant
from normscope.settings import JSON

CLASSES = {"digits": 10}  # of the others the paper says it


@dataclass(frozen=True)
class Line:
    """One variant of a method: what it is called, its rows by class, and the paper's figures of the method."""

    variant: Variant
    label: str
    cells: Mapping[int, Sequence[tuple[Row, float]]]
    published: paper.Row | None

    def values(self) -> dict[int, float]:
        """For each class that was measured, the mean over seeds."""
        return {normal: 100 * fmean(value for _, value in found) for normal, found in self.cells.items()}

    def mean(self) -> float:
        return fmean(self.values().values())

    def sd(self) -> float | None:
        return stdev(self.values().values()) if len(self.cells) > 1 else None

    def seeds(self) -> tuple[int, int]:
        """The fewest and the most seeds that a class has."""
        counts = [len(found) for found in self.cells.values()]
        return min(counts), max(counts)

    def rows(self) -> list[Row]:
        return [row for found in self.cells.values() for row, _ in found]

    def unhealthy(self) -> Counter[str]:
        """How many cells were not ok, by the first word of what was wrong."""
        return Counter(row.health.partition(":")[0] for row in self.rows() if row.health != "ok")

    def published_mean(self) -> float | None:
        """The paper's mean over the classes measured here; None if it has not all of them."""
        if self.published is None or max(self.cells) >= len(self.published.classes):
            return None
        return fmean(self.published.classes[normal] for normal in self.cells)


@dataclass(frozen=True)
class Table:
    dataset: str
    metric: str
    classes: int
    lines: Sequence[Line]
    failed: Sequence[Row]


def tables(rows: Sequence[Row], metric: str) -> list[Table]:
    """One for each data set, by name."""
    return [table([row for row in rows if row.dataset == name], metric) for name in sorted({r.dataset for r in rows})]


def table(rows: Sequence[Row], metric: str) -> Table:
    """The rows of one data set, the best mean first."""
    dataset = rows[0].dataset
    good = [row for row in rows if row.error is None]
    variants = list(dict.fromkeys(row.variant for row in good))
    lines = [line(variant, variants, good, metric) for variant in variants]
    lines.sort(key=Line.mean, reverse=metric not in LOWER_IS_BETTER)
    count = max([CLASSES.get(dataset, paper.class_count(dataset)), *(row.normal + 1 for row in rows)])
    return Table(dataset, metric, count, lines, [row for row in rows if row.error is not None])


def line(variant: Variant, variants: Sequence[Variant], rows: Sequence[Row], metric: str) -> Line:
    cells: dict[int, list[tuple[Row, float]]] = {}
    for row in rows:
        if row.variant == variant:
            assert row.value is not None
            cells.setdefault(row.normal, []).append((row, row.value))
    published = paper.row(rows[0].dataset, variant.method) if metric == "auroc" else None
    return Line(variant, label(variant, variants), dict(sorted(cells.items())), published)


def label(variant: Variant, variants: Iterable[Variant]) -> str:
    """The method, and what differs from its default settings; the budget only where several occur."""
    words = [variant.method, *changed(variant)]
    if len({other.budget for other in variants}) > 1:
        words.append("no budget" if variant.budget is None else f"budget {variant.budget:g} s")
    if variant.epochs is not None:
        words.append(f"at most {variant.epochs} epochs")
    if variant.test_images is not None:
        words.append(f"{variant.test_images} test images")
    return words[0] + (" " + ", ".join(words[1:]) if len(words) > 1 else "")


def changed(variant: Variant) -> list[str]:
    """`beta=2` for a setting other than the default, `beta unset` for one that the row does not know."""
    usual, chosen = defaults(variant.method), variant.chosen()
    others = [f"{key}={written(value)}" for key, value in chosen.items() if key not in usual or usual[key] != value]
    return others + [f"{key} unset" for key in usual if key not in chosen]


@cache
def defaults(method: str) -> Mapping[str, JSON]:
    """Empty for a method that is not ours, or no longer: then every setting is told."""
    from normscope.methods import settings_of  # imports torch, which takes seconds
    from normscope.settings import to_json

    try:
        return to_json(settings_of(method)())
    except SettingError:
        return {}


def written(value: JSON) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
