"""One table for each data set: a line for each variant of a method, beside the paper's figures for the method.

Figures are in per cent. A class counts as the mean over its seeds; the SD is that of a sample over classes, as in the
paper.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from normscope.benchmark.measurement import Measurement
from normscope.tables import paper
from normscope.tables.paper import PublishedRow
from normscope.tables.variants import Variant, by_variant, label

LOWER_IS_BETTER = {"fpr95"}
CLASSES = {"digits": 10}  # of the data sets that the paper has no figures for


@dataclass(frozen=True)
class Line:
    """One variant of a method: its measurements by normal class, and the paper's figures for the method."""

    variant: Variant
    label: str
    metric: str
    classes: Mapping[int, Sequence[Measurement]]
    published: PublishedRow | None

    def values(self) -> dict[int, float]:
        """The mean over seeds of each class of which the metric was measured; old results may lack it."""
        measured = {
            normal: [m.metrics[self.metric] for m in seeds if self.metric in m.metrics]
            for normal, seeds in self.classes.items()
        }
        return {normal: 100 * fmean(values) for normal, values in measured.items() if values}

    def mean(self) -> float | None:
        values = self.values().values()
        return fmean(values) if values else None

    def sd(self) -> float | None:
        values = self.values().values()
        return stdev(values) if len(values) > 1 else None

    def seeds(self) -> tuple[int, int]:
        """The smallest and the largest number of seeds of a class."""
        counts = [len(seeds) for seeds in self.classes.values()]
        return min(counts), max(counts)

    def measurements(self) -> list[Measurement]:
        return [measurement for seeds in self.classes.values() for measurement in seeds]

    def unhealthy(self) -> Counter[str]:
        """How many measurements are not healthy, by the first word of their health, e.g. collapsed."""
        return Counter(m.health.partition(":")[0] for m in self.measurements() if m.health != "ok")

    def published_mean(self) -> float | None:
        """The paper's mean over the classes that were measured; None if it lacks one of them."""
        if self.published is None or max(self.classes) >= len(self.published.classes):
            return None
        return fmean(self.published.classes[normal] for normal in self.classes)


@dataclass(frozen=True)
class Table:
    dataset: str
    metric: str
    classes: int
    lines: Sequence[Line]
    failed: Sequence[Measurement]


def tables(measurements: Sequence[Measurement], metric: str) -> list[Table]:
    """One for each data set, by name."""
    names = sorted({m.cell.dataset for m in measurements})
    return [table(name, [m for m in measurements if m.cell.dataset == name], metric) for name in names]


def table(dataset: str, measurements: Sequence[Measurement], metric: str) -> Table:
    """The best mean is first."""
    done = [m for m in measurements if m.error is None]
    if done and not any(metric in m.metrics for m in done):
        done[0].value(metric)  # raises
    variants = by_variant(done)
    lines = [
        Line(
            variant,
            label(variant, variants),
            metric,
            dict(sorted(classes.items())),
            published(dataset, variant, metric),
        )
        for variant, classes in variants.items()
    ]
    sign = 1 if metric in LOWER_IS_BETTER else -1
    lines.sort(key=lambda line: math.inf if (mean := line.mean()) is None else sign * mean)
    known = CLASSES.get(dataset, paper.class_count(dataset))
    classes = max([known, *(m.cell.normal + 1 for m in measurements)])
    return Table(dataset, metric, classes, lines, [m for m in measurements if m.error is not None])


def published(dataset: str, variant: Variant, metric: str) -> PublishedRow | None:
    return paper.row(dataset, variant.method) if metric == "auroc" else None
