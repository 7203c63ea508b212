"""Two files of results, before and after: what changed, and whether by more than another seed would change it.

Cells are paired by data set, method and class. Settings may differ between the files, that is the point, as long as
each file has one variant of the method on the data set; with several, only variants that are equal in both are paired.
Differences are after minus before, in per cent.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, mean, variance

from scipy.stats import t as student
from scipy.stats import wilcoxon

from normscope.errors import DatasetError
from normscope.evaluation.rows import Row, Variant

Group = tuple[str, str]  # data set and method
Variants = Mapping[Variant, Mapping[int, Sequence[Row]]]  # rows by variant and class

FEWEST_FOR_A_TEST = 6  # with fewer pairs not even agreement of all is below 0.05
ONE_SEED = "unknown: one seed each"


@dataclass(frozen=True)
class Pair:
    """One cell in both files, its values over seeds in per cent."""

    normal: int
    before: Sequence[float]
    after: Sequence[float]
    intervals_apart: bool | None  # of the test images alone, where there is one seed each; None: not known

    def difference(self) -> float:
        return float(mean(self.after)) - float(mean(self.before))

    def weight(self) -> float:
        """Its variance is this times that of a seed."""
        return 1 / len(self.before) + 1 / len(self.after)


@dataclass(frozen=True)
class Comparison:
    """One variant of a method on a data set. `spread` is the SD over seeds, pooled over cells; None: one seed each."""

    dataset: str
    before: Variant
    after: Variant
    pairs: Sequence[Pair]
    spread: float | None
    freedom: int

    def difference(self) -> float:
        return fmean(pair.difference() for pair in self.pairs)

    def verdict(self) -> str:
        """Of the mean difference; classes are what they are, so only seeds make it uncertain."""
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
    """Cells (not seeds) that only one file has, those that failed in the other included."""

    before: int
    after: int


def compare(before: Sequence[Row], after: Sequence[Row]) -> tuple[list[Comparison], Unpaired]:
    """One comparison for each method, or each variant that both files have, on each data set."""
    old, new = grouped(before), grouped(after)
    found = [
        comparison(group[0], one, old[group][one], other, new[group][other])
        for group in sorted(old.keys() & new.keys())
        for one, other in matched(group, old[group], new[group])
    ]
    found = [one for one in found if one.pairs]
    paired = sum(len(one.pairs) for one in found)
    return found, Unpaired(count(old.values()) - paired, count(new.values()) - paired)


def grouped(rows: Iterable[Row]) -> dict[Group, dict[Variant, dict[int, list[Row]]]]:
    groups: dict[Group, dict[Variant, dict[int, list[Row]]]] = {}
    for row in rows:
        if row.error is None:
            variants = groups.setdefault((row.dataset, row.variant.method), {})
            variants.setdefault(row.variant, {}).setdefault(row.normal, []).append(row)
    return groups


def count(groups: Iterable[Variants]) -> int:
    return sum(len(cells) for variants in groups for cells in variants.values())


def matched(group: Group, old: Variants, new: Variants) -> list[tuple[Variant, Variant]]:
    if len(old) == len(new) == 1:
        return list(zip(old, new, strict=True))
    if equal := [(one, one) for one in old if one in new]:
        return equal
    raise DatasetError(
        f"{group[1]} on {group[0]} has {len(old)} variants before and {len(new)} after, and none is the same; "
        "give files with one variant each, or name other methods with --method"
    )


def comparison(
    dataset: str, one: Variant, old: Mapping[int, Sequence[Row]], other: Variant, new: Mapping[int, Sequence[Row]]
) -> Comparison:
    pairs = [pair(normal, old[normal], new[normal]) for normal in sorted(old.keys() & new.keys())]
    samples = [sample for both in pairs for sample in (both.before, both.after)]
    freedom = sum(len(sample) - 1 for sample in samples)
    squares = sum((len(sample) - 1) * float(variance(sample)) for sample in samples if len(sample) > 1)
    return Comparison(dataset, one, other, pairs, math.sqrt(squares / freedom) if freedom else None, freedom)


def pair(normal: int, old: Sequence[Row], new: Sequence[Row]) -> Pair:
    return Pair(normal, per_cent(old), per_cent(new), apart(old, new))


def per_cent(rows: Iterable[Row]) -> list[float]:
    return [100 * row.value for row in rows if row.value is not None]


def apart(old: Sequence[Row], new: Sequence[Row]) -> bool | None:
    """Whether the bootstrap intervals of two single runs have nothing in common."""
    if len(old) > 1 or len(new) > 1 or old[0].interval is None or new[0].interval is None:
        return None
    (low, high), (other_low, other_high) = old[0].interval, new[0].interval
    return high < other_low or other_high < low


def rank_test(differences: Sequence[float]) -> float | None:
    """Wilcoxon's p-value that cells go up as often and as far as down; None with too few that differ."""
    differing = [difference for difference in differences if difference != 0]
    return float(wilcoxon(differing).pvalue) if len(differing) >= FEWEST_FOR_A_TEST else None
