"""`normscope compare`: what changed between two files of results, and whether by more than another seed would."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.ending import one_line_errors
from normscope.cli.options import Debug, Json
from normscope.cli.output import plural, print_json
from normscope.errors import SettingError

if TYPE_CHECKING:
    from normscope.benchmark.measurement import Measurement
    from normscope.settings import JSON
    from normscope.tables.compare import Comparison, Pair, Unpaired


def compare(
    before: Annotated[Path, typer.Argument(help="Results of `normscope bench`.")],
    after: Annotated[Path, typer.Argument(help="Results of the same cells, with other settings or another version.")],
    metric: Annotated[
        str, typer.Option(help="auroc, auprc, fpr95, tpr_at_fpr_01 or another that the results have.")
    ] = "auroc",
    method: Annotated[str | None, typer.Option(help="Only these methods, separated by commas.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare two files, cell by cell; of a method with several variants, only those that are equal in both.

    A difference exceeds the seeds if a t test with the spread over seeds, pooled over classes, finds it at 5 %.
    """
    with one_line_errors(debug):
        from normscope.tables.compare import compare as compared
        from normscope.tables.variants import read

        old, new = (chosen(read([path]), path, method) for path in (before, after))
        comparisons, unpaired = compared(old, new, metric)
        if json:
            print_json(as_json(metric, comparisons, unpaired))
        else:
            print(
                "\n".join([*(line for c in comparisons for line in lines(c)), *summary(metric, comparisons, unpaired)])
            )


def chosen(measurements: "list[Measurement]", path: Path, method: str | None) -> "list[Measurement]":
    if method is None:
        return measurements
    names, present = {name.strip() for name in method.split(",")}, {m.cell.method for m in measurements}
    if absent := sorted(names - present):
        raise SettingError(f"{path} has no result of {absent[0]!r}; choose from {', '.join(sorted(present)) or 'none'}")
    return [m for m in measurements if m.cell.method in names]


def lines(comparison: "Comparison") -> list[str]:
    """The mean difference, then every class."""
    head = f"{comparison.dataset} {comparison.after.method}: {comparison.difference():+.2f} over "
    head += f"{classes(len(comparison.pairs))}, {comparison.verdict()}"
    if comparison.spread is not None:
        head += f" (SD over seeds {comparison.spread:.2f}, {plural(comparison.freedom, 'degree')} of freedom)"
    return [head, *(cell(comparison, pair) for pair in comparison.pairs)]


def cell(comparison: "Comparison", pair: "Pair") -> str:
    before, after = (sum(values) / len(values) for values in (pair.before, pair.after))
    text = f"  class {pair.normal}: {before:.2f} → {after:.2f}, {pair.difference():+.2f}, {comparison.verdict_of(pair)}"
    if comparison.spread is None and pair.intervals_apart is not None:
        text += f"; test-set intervals {'apart' if pair.intervals_apart else 'overlap'} (noise of images, not of seeds)"
    return text


def summary(metric: str, comparisons: "Sequence[Comparison]", unpaired: "Unpaired") -> list[str]:
    from normscope.tables.table import LOWER_IS_BETTER

    differences = [pair.difference() for comparison in comparisons for pair in comparison.pairs]
    below = f"cells in one file only: {unpaired.before} before, {unpaired.after} after"
    if not differences:
        return ["no cell is in both files", below]
    count, up, down = len(differences), sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    return [
        f"all: {metric} {sum(differences) / count:+.2f} per cent ({better} is better) over {plural(count, 'cell')}, "
        f"{up} up, {down} down, {count - up - down} equal; {rank(differences)}",
        below,
    ]


def rank(differences: Sequence[float]) -> str:
    from normscope.tables.compare import FEWEST_FOR_A_TEST, rank_test

    p = rank_test(differences)
    return f"fewer than {FEWEST_FOR_A_TEST} differ, too few to test" if p is None else f"Wilcoxon p = {p:.2g}"


def classes(count: int) -> str:
    return f"{count} class{'' if count == 1 else 'es'}"


def as_json(metric: str, comparisons: "Sequence[Comparison]", unpaired: "Unpaired") -> "dict[str, JSON]":
    from normscope.tables.compare import rank_test

    differences = [pair.difference() for comparison in comparisons for pair in comparison.pairs]
    return {
        "metric": metric,
        "comparisons": [comparison_as_json(comparison) for comparison in comparisons],
        "difference": sum(differences) / len(differences) if differences else None,
        "up": sum(d > 0 for d in differences),
        "down": sum(d < 0 for d in differences),
        "wilcoxon_p": rank_test(differences),
        "only_before": unpaired.before,
        "only_after": unpaired.after,
    }


def comparison_as_json(comparison: "Comparison") -> "dict[str, JSON]":
    return {
        "dataset": comparison.dataset,
        "method": comparison.after.method,
        "settings": {"before": comparison.before.chosen(), "after": comparison.after.chosen()},
        "difference": comparison.difference(),
        "verdict": comparison.verdict(),
        "seed_sd": comparison.spread,
        "degrees_of_freedom": comparison.freedom,
        "cells": [
            {
                "normal": pair.normal,
                "before": list(pair.before),
                "after": list(pair.after),
                "difference": pair.difference(),
                "verdict": comparison.verdict_of(pair),
                "test_set_intervals_apart": pair.intervals_apart,
            }
            for pair in comparison.pairs
        ],
    }
