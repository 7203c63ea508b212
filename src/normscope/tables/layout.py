"""A table as Markdown, LaTeX, CSV or JSON.

Written here and not by tabulate, which pads every cell, does not escape `|`, and knows no CSV.
"""

import csv
import io
from collections.abc import Sequence

from normscope.benchmark.measurement import Measurement
from normscope.settings import JSON
from normscope.tables.table import Line, Table

LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "–": "--",
}


def markdown(table: Table) -> str:
    lines = [f"{title(table)}\n", markdown_table(*cells(table)), *(f"- {note}" for note in notes(table))]
    return "\n".join(lines).rstrip() + "\n"


def markdown_table(header: Sequence[str], *body: Sequence[str]) -> str:
    """Without notes; all columns but the first are aligned to the right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = ([" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in (header, rule, *body))
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def latex(table: Table) -> str:
    """A booktabs tabular, the notes as lines below it."""
    header, *body = [" & ".join(map(escaped, line)) + r" \\" for line in cells(table)]
    columns = "l" + "r" * (table.classes + 3)
    start = [f"% {title(table)}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule"]
    below = [rf"\par\noindent\footnotesize {escaped(note)}" for note in notes(table)]
    return "\n".join([*start, *body, r"\bottomrule", r"\end{tabular}", *below]) + "\n"


def escaped(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in " ".join(text.split()))


def title(table: Table) -> str:
    return f"{table.dataset}: {table.metric} in per cent"


def cells(table: Table) -> list[list[str]]:
    """The header and the lines, each followed by the paper's line for the method, if there is one."""
    written = [["method", *map(str, range(table.classes)), "mean", "SD", "seeds"]]
    for line in table.lines:
        written.append(measured(line, table.classes))
        if line.published is not None:
            written.append(published(line, table.classes))
    return written


def measured(line: Line, classes: int) -> list[str]:
    values, (fewest, most) = line.values(), line.seeds()
    mean = shown(line.mean()) + ("" if len(values) == classes else f" ({len(values)} of {classes})")
    seeds = str(most) if fewest == most else f"{fewest}–{most}"
    name = line.label + ("†" if line.unhealthy() else "")
    return [name, *(shown(values.get(normal)) for normal in range(classes)), mean, shown(line.sd(), 2), seeds]


def published(line: Line, classes: int) -> list[str]:
    printed, same = line.published, line.published_mean()
    assert printed is not None
    mean = shown(printed.mean)
    if len(line.classes) < classes and same is not None:
        mean += f" ({same:.1f} on the same {len(line.classes)})"
    figures = [shown(printed.classes[normal] if normal < len(printed.classes) else None) for normal in range(classes)]
    return [f"paper: {line.variant.method}" + ("‡" if printed.note else ""), *figures, mean, shown(printed.sd, 2), "–"]


def shown(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def notes(table: Table) -> list[str]:
    """What collapsed, what the paper misprints or borrowed, what failed."""
    written = []
    for line in table.lines:
        for problem, count in line.unhealthy().items():
            written.append(f"† {line.label}: {problem} in {count} of {len(line.measurements())}")
    for method, printed in {line.variant.method: line.published for line in table.lines}.items():
        if printed is not None and printed.note:
            written.append(f"‡ paper, {method}: {printed.note}")
        if printed is not None and printed.borrowed_from:
            written.append(f"paper, {method}: borrowed from {printed.borrowed_from}")
    if table.failed:
        written.append(f"failed: {len(table.failed)}, the first {failure(table.failed[0])}")
    return written


def failure(failed: Measurement) -> str:
    cell = failed.cell
    return " ".join(f"{cell.method}, class {cell.normal}, seed {cell.seed}: {failed.error}".split())


def csv_text(tables: Sequence[Table]) -> str:
    """All tables under one header, for a spreadsheet: bare numbers, and empty cells where there is none."""
    most = max((table.classes for table in tables), default=0)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["dataset", "metric", "method", "source", "measured", "classes", "seeds", "mean", "sd", "not_ok"]
    writer.writerow([*names, *range(most)])
    for table in tables:
        for line in table.lines:
            writer.writerows(csv_lines(table, line))
    return text.getvalue()


def csv_lines(table: Table, line: Line) -> list[list[object]]:
    head, values, mean, sd = [table.dataset, table.metric], line.values(), line.mean(), line.sd()
    counts = [len(values), table.classes, line.seeds()[0]]
    figures = [f"{values[normal]:.1f}" if normal in values else "" for normal in range(table.classes)]
    middle, spread = "" if mean is None else f"{mean:.1f}", "" if sd is None else f"{sd:.2f}"
    lines = [[*head, line.label, "measured", *counts, middle, spread, line.unhealthy().total(), *figures]]
    if (printed := line.published) is not None:
        size = len(printed.classes)
        lines.append(
            [*head, line.label, "paper", size, table.classes, "", printed.mean, printed.sd, "", *printed.classes]
        )
    return lines


def as_json(table: Table) -> dict[str, JSON]:
    """Everything. Values of single cells are shares between 0 and 1, all others in per cent."""
    return {
        "dataset": table.dataset,
        "metric": table.metric,
        "classes": table.classes,
        "lines": [line_as_json(line) for line in table.lines],
        "failed": [failed_as_json(failed) for failed in table.failed],
        "notes": notes(table),
    }


def line_as_json(line: Line) -> dict[str, JSON]:
    return {
        "label": line.label,
        **{**line.variant._asdict(), "settings": line.variant.chosen()},
        "mean": line.mean(),
        "sd": line.sd(),
        "values": {str(normal): value for normal, value in line.values().items()},
        "cells": [cell_as_json(measurement, line.metric) for measurement in line.measurements()],
        "not_ok": dict(line.unhealthy()),
        "paper": None if line.published is None else dict(line.published._asdict()),
        "paper_mean_of_the_same_classes": line.published_mean(),
    }


def cell_as_json(measurement: Measurement, metric: str) -> dict[str, JSON]:
    return {
        "normal": measurement.cell.normal,
        "seed": measurement.cell.seed,
        "value": measurement.metrics.get(metric),
        "interval": measurement.intervals.get(metric),
        "health": measurement.health,
    }


def failed_as_json(failed: Measurement) -> dict[str, JSON]:
    cell = failed.cell
    return {"method": cell.method, "normal": cell.normal, "seed": cell.seed, "error": failed.error}
