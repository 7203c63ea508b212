"""`normscope compare`: what changed between two files of results, and whether by more than another seed would."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.output import Debug, Json, one_line_errors, plural, print_json
from normscope.errors import SettingError

if TYPE_CHECKING:
    from normscope.evaluation.compare import Comparison, Pair, Unpaired
    from normscope.evaluation.rows import Row
    from normscope.settings import JSON


def compare(
    before: Annotated[Path, typer.Argument(help="Results of `normscope bench`.")],
    after: Annotated[Path, typer.Argument(help="Results of the same cells, with other settings or another version.")],
    metric: Annotated[str, typer.Option(help="auroc, auprc or fpr95, or another that the rows have.")] = "auroc",
    method: Annotated[str | None, typer.Option(help="Only these methods, separated by commas.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare two files, cell by cell; of a method with several variants, only those that are equal in both.

    A difference exceeds the seeds if a t test with the spread over seeds, pooled over classes, finds it at 5 %.
    """
    with one_line_errors(debug):
        from normscope.evaluation.compare import compare as compared
        from normscope.evaluation.rows import read

        rows = [chosen(read([path], metric), path, method) for path in (before, after)]
        found, unpaired = compared(*rows)
        if json:
            print_json(as_json(metric, found, unpaired))
        else:
            print("\n".join([*(line for one in found for line in lines(one)), *summary(metric, found, unpaired)]))


def chosen(rows: "list[Row]", path: Path, method: str | None) -> "list[Row]":
    if method is None:
        return rows
    names, present = {name.strip() for name in method.split(",")}, {row.variant.method for row in rows}
    if absent := sorted(names - present):
        raise SettingError(f"{path} has no row of {absent[0]!r}; choose from {', '.join(sorted(present))}")
    return [row for row in rows if row.variant.method in names]


def lines(one: "Comparison") -> list[str]:
    """The mean difference, then every class."""
    head = f"{one.dataset} {one.after.method}: {one.difference():+.2f} over {classes(len(one.pairs))}, {one.verdict()}"
    if one.spread is not None:
        head += f" (SD over seeds {one.spread:.2f}, {plural(one.freedom, 'degree')} of freedom)"
    return [head, *(cell(one, pair) for pair in one.pairs)]


def cell(one: "Comparison", pair: "Pair") -> str:
    means = [sum(values) / len(values) for values in (pair.before, pair.after)]
    text = f"  class {pair.normal}: {means[0]:.2f} → {means[1]:.2f}, {pair.difference():+.2f}, {one.verdict_of(pair)}"
    if one.spread is None and pair.intervals_apart is not None:
        text += f"; test-set intervals {'apart' if pair.intervals_apart else 'overlap'} (noise of images, not of seeds)"
    return text


def summary(metric: str, found: "Sequence[Comparison]", unpaired: "Unpaired") -> list[str]:
    from normscope.evaluation.rows import LOWER_IS_BETTER

    every = [pair.difference() for one in found for pair in one.pairs]
    below = f"cells in one file only: {unpaired.before} before, {unpaired.after} after"
    if not every:
        return ["no cell is in both files", below]
    up, down = sum(one > 0 for one in every), sum(one < 0 for one in every)
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    return [
        f"all: {metric} {sum(every) / len(every):+.2f} per cent ({better} is better) over "
        f"{plural(len(every), 'cell')}, {up} up, {down} down, {len(every) - up - down} equal; {rank(every)}",
        below,
    ]


def rank(every: Sequence[float]) -> str:
    from normscope.evaluation.compare import FEWEST_FOR_A_TEST, rank_test

    p = rank_test(every)
    return f"fewer than {FEWEST_FOR_A_TEST} differ, too few to test" if p is None else f"Wilcoxon p = {p:.2g}"


def classes(count: int) -> str:
    return f"{count} class{'' if count == 1 else 'es'}"


def as_json(metric: str, found: "Sequence[Comparison]", unpaired: "Unpaired") -> "dict[str, JSON]":
    from normscope.evaluation.compare import rank_test

    every = [pair.difference() for one in found for pair in one.pairs]
    return {
        "metric": metric,
        "comparisons": [comparison_as_json(one) for one in found],
        "difference": sum(every) / len(every) if every else None,
        "up": sum(one > 0 for one in every),
        "down": sum(one < 0 for one in every),
        "wilcoxon_p": rank_test(every),
        "only_before": unpaired.before,
        "only_after": unpaired.after,
    }


def comparison_as_json(one: "Comparison") -> "dict[str, JSON]":
    return {
        "dataset": one.dataset,
        "method": one.after.method,
        "settings": {"before": one.before.chosen(), "after": one.after.chosen()},
        "difference": one.difference(),
        "verdict": one.verdict(),
        "seed_sd": one.spread,
        "degrees_of_freedom": one.freedom,
        "cells": [
            {
                "normal": pair.normal,
                "before": list(pair.before),
                "after": list(pair.after),
                "difference": pair.difference(),
                "verdict": one.verdict_of(pair),
                "test_set_intervals_apart": pair.intervals_apart,
            }
            for pair in one.pairs
        ],
    }
