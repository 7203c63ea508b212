"""`normscope doctor`: what is in a folder, before anything is learnt from it."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from normscope.cli.ending import SOME_UNREADABLE, one_line_errors
from normscope.cli.options import Debug, Json
from normscope.cli.output import plural, print_json
from normscope.cli.progress import bars
from normscope.images.notation import printable
from normscope.images.outcome import FileOutcome

if TYPE_CHECKING:
    from normscope.images.doctor import Report

SHOWN, FEW = 10, 3


def doctor(
    folder: Annotated[Path, typer.Argument(help="Folder to look through.")],
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what a folder holds: readable, skipped and why, duplicates, sizes, and outliers."""
    with one_line_errors(debug):
        from normscope.images.doctor import examine, to_json

        with bars() as observer:
            report = examine(folder, progress=partial(observer.images, "reading"))
        if json:
            print_json(to_json(report))
        else:
            print_report(report)
        if report.unreadable:
            raise typer.Exit(SOME_UNREADABLE)


def print_report(report: "Report") -> None:
    print(f"{plural(report.readable, 'readable image')}, {report.grey} grey and {report.colour} in colour")
    print_counts("sizes", report.sizes)
    print_counts("formats", report.formats)
    print_counts("modes", report.modes)
    print_list("cannot be read", [described(one) for one in report.unreadable])
    print_list("skipped", [described(one) for one in report.skipped])
    print_list("of a single colour", report.flat)
    print_list("16 bits of which only the low ones are used, so they look dark", report.dim)
    print_list("animated, of which the first frame is used", report.animated)
    print_list("groups of exact duplicates", [" = ".join(group) for group in report.duplicates])
    print_list("outliers, worst first", [f"{one.path} ({one.score:.1f})" for one in report.outliers])


def described(outcome: FileOutcome) -> str:
    return f"{printable(outcome.path)}: {outcome.reason}"


def print_counts(what: str, counts: Mapping[str, int]) -> None:
    """The most frequent; of many that occur but once only a few."""
    shown = SHOWN if max(counts.values(), default=0) > 1 else FEW
    some = ", ".join(f"{name} ({count})" for name, count in list(counts.items())[:shown])
    if some:
        print(f"{what}: {some}{f' and {len(counts) - shown} others' if len(counts) > shown else ''}")


def print_list(what: str, lines: Sequence[str]) -> None:
    if lines:
        print(f"{what}: {len(lines)}")
        for line in lines[:SHOWN]:
            print(f"  {line}")
        if len(lines) > SHOWN:
            print(f"  … and {len(lines) - SHOWN} more; --json lists all")
