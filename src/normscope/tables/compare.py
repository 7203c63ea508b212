"""Two sets of measurements, before and after a change: what differs, and whether by more than another seed would.

Classes are paired by data set and method. Settings may differ between the two, as long as each has one variant of the
method on the data set; of several variants only those that both have are paired. Differences are after minus before,
in per cent.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, mean, variance

from scipy.stats import t as student
from scipy.stats import wilcoxon

from normscope.benchmark.measurement import Interval, Measurement
from normscope.errors import DatasetError
from normscope.tables.variants import Variant, by_variant

Group = tuple[str, str]  # data set and method
Classes = Mapping[int, Sequence[Measurement]]  # by normal class

FEWEST_FOR_A_TEST = 6  # with fewer, p is above 0.05 even if all have one sign
ONE_SEED = "unknown: one seed each"


@dataclass(frozen=True)
class Pair:
    """One normal class before and after: a value for each seed, in per cent.

    `intervals_apart` says whether the bootstrap intervals of the test images are disjoint; None with several seeds.
    """

    normal: int
    before: Sequence[float]
    after: Sequence[float]
    intervals_apart: bool | None

    def difference(self) -> float:
        return float(mean(self.after)) - float(mean(self.before))

    def weight(self) -> float:
        """The variance of the difference, in units of the variance over seeds."""
        return 1 / len(self.before) + 1 / len(self.after)


@dataclass(frozen=True)
class Comparison:
    """One method on one data set. `spread` is the SD over seeds, pooled over classes; None with one seed each."""

    dataset: str
    before: Variant
    after: Variant
    pairs: Sequence[Pair]
    spread: float | None
    freedom: int  # degrees of freedom of `spread`

    def difference(self) -> float:
        return fmean(pair.difference() for pair in self.pairs)

    def verdict(self) -> str:
        """Of the mean difference. Classes are no sample of other classes: only seeds make the mean uncertain."""
        return self.judged(self.difference(), sum(pair.weight() for pair in self.pairs) / len(self.pairs) ** 2)

    def verdict_of(self, pair: Pair) -> str:
        return self.judged(pair.difference(), pair.weight())

    def judged(self, difference: float, weight: float) -> str:
        """Two-sided t test at 5 %."""
        if self.spread is None:
            return ONE_SEED
        least = float(student.ppf(0.975, self.freedom)) * self.spread * math.sqrt(weight)
        return "exceeds the seeds" if abs(difference) > least else "within the seeds"


@dataclass(frozen=True)
class Unpaired:
    """How many classes were measured in one of the two only; one that failed counts as not measured."""

    before: int
    after: int


def compare(
    before: Sequence[Measurement], after: Sequence[Measurement], metric: str
) -> tuple[list[Comparison], Unpaired]:
    """One comparison for each method, or each variant that both have, on each data set."""
    old, new = grouped(before), grouped(after)
    comparisons = [
        comparison(group[0], one, old[group][one], other, new[group][other], metric)
        for group in sorted(old.keys() & new.keys())
        for one, other in matched(group, old[group], new[group])
    ]
    comparisons = [c for c in comparisons if c.pairs]
    paired = sum(len(c.pairs) for c in comparisons)
    return comparisons, Unpaired(count(old.values()) - paired, count(new.values()) - paired)


def grouped(measurements: Sequence[Measurement]) -> dict[Group, dict[Variant, dict[int, list[Measurement]]]]:
    groups: dict[Group, list[Measurement]] = {}
    for measurement in (m for m in measurements if m.error is None):
        groups.setdefault((measurement.cell.dataset, measurement.cell.method), []).append(measurement)
    return {group: by_variant(own) for group, own in groups.items()}


def count(groups: Iterable[Mapping[Variant, Classes]]) -> int:
    return sum(len(classes) for variants in groups for classes in variants.values())


def matched(
    group: Group, old: Mapping[Variant, Classes], new: Mapping[Variant, Classes]
) -> list[tuple[Variant, Variant]]:
    if len(old) == len(new) == 1:
        return list(zip(old, new, strict=True))
    if equal := [(variant, variant) for variant in old if variant in new]:
        return equal
    raise DatasetError(
        f"{group[1]} on {group[0]} has {len(old)} variants before and {len(new)} after, and none is the same; "
        "compare one variant with one, or leave this method out"
    )


def comparison(dataset: str, one: Variant, old: Classes, other: Variant, new: Classes, metric: str) -> Comparison:
    pairs = [pair(normal, old[normal], new[normal], metric) for normal in sorted(old.keys() & new.keys())]
    samples = [sample for both in pairs for sample in (both.before, both.after)]
    freedom = sum(len(sample) - 1 for sample in samples)
    squares = sum((len(sample) - 1) * float(variance(sample)) for sample in samples if len(sample) > 1)
    return Comparison(dataset, one, other, pairs, math.sqrt(squares / freedom) if freedom else None, freedom)


def pair(normal: int, old: Sequence[Measurement], new: Sequence[Measurement], metric: str) -> Pair:
    before, after = ([100 * measurement.value(metric) for measurement in seeds] for seeds in (old, new))
    intervals = [measurement.intervals.get(metric) for measurement in (*old, *new)]
    return Pair(normal, before, after, disjoint(*intervals) if len(intervals) == 2 else None)


def disjoint(one: Interval | None, other: Interval | None) -> bool | None:
    return None if one is None or other is None else one[1] < other[0] or other[1] < one[0]


def rank_test(differences: Sequence[float]) -> float | None:
    """Two-sided p-value of Wilcoxon's signed-rank test; None if too few differ from 0."""
    differing = [difference for difference in differences if difference != 0]
    return float(wilcoxon(differing).pvalue) if len(differing) >= FEWEST_FOR_A_TEST else None
