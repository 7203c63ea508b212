"""A table as Markdown, LaTeX, CSV or JSON."""

import csv
import io
from collections.abc import Sequence

from normscope.evaluation.rows import Row
from normscope.evaluation.tables import Line, Table
from normscope.settings import JSON

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
    header, *body = [[cell.replace("|", "\\|") for cell in line] for line in cells(table)]
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = ["| " + " | ".join(line) + " |" for line in (header, rule, *body)]
    return "\n".join([f"{title(table)}\n", *lines, "", *(f"- {note}" for note in notes(table))]).rstrip() + "\n"


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
    """Header and lines; below each line of ours the paper's, if it has one."""
    found = [["method", *map(str, range(table.classes)), "mean", "SD", "seeds"]]
    for line in table.lines:
        found.append(measured(line, table.classes))
        if line.published is not None:
            found.append(published(line, table.classes))
    return found


def measured(line: Line, classes: int) -> list[str]:
    values, (fewest, most) = line.values(), line.seeds()
    mean = f"{line.mean():.1f}" + ("" if len(values) == classes else f" ({len(values)} of {classes})")
    seeds = str(most) if fewest == most else f"{fewest}–{most}"
    name = line.label + ("†" if line.unhealthy() else "")
    return [name, *(shown(values.get(normal)) for normal in range(classes)), mean, shown(line.sd(), 2), seeds]


def published(line: Line, classes: int) -> list[str]:
    printed, same = line.published, line.published_mean()
    assert printed is not None
    mean = shown(printed.mean)
    if len(line.cells) < classes and same is not None:
        mean += f" ({same:.1f} on the same {len(line.cells)})"
    figures = [shown(printed.classes[normal] if normal < len(printed.classes) else None) for normal in range(classes)]
    return [f"paper: {line.variant.method}" + ("‡" if printed.note else ""), *figures, mean, shown(printed.sd, 2), "–"]


def shown(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def notes(table: Table) -> list[str]:
    """What a reader of the figures must know: what collapsed, what the paper misprints, what failed."""
    found = []
    for line in table.lines:
        for problem, count in line.unhealthy().items():
            found.append(f"† {line.label}: {problem} in {count} of {len(line.rows())}")
    for method, printed in {line.variant.method: line.published for line in table.lines}.items():
        if printed is not None and printed.note:
            found.append(f"‡ paper, {method}: {printed.note}")
        if printed is not None and printed.borrowed_from:
            found.append(f"paper, {method}: borrowed from {printed.borrowed_from}")
    if table.failed:
        found.append(f"failed: {len(table.failed)}, the first {failure(table.failed[0])}")
    return found


def failure(row: Row) -> str:
    return " ".join(f"{row.variant.method}, class {row.normal}, seed {row.seed}: {row.error}".split())


def csv_text(tables: Sequence[Table]) -> str:
    """All tables under one header, for a spreadsheet: figures alone, and nothing where there is none."""
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
    head, values, sd = [table.dataset, table.metric], line.values(), line.sd()
    counts = [len(values), table.classes, line.seeds()[0]]
    figures = [f"{values[normal]:.1f}" if normal in values else "" for normal in range(table.classes)]
    spread = "" if sd is None else f"{sd:.2f}"
    found = [[*head, line.label, "measured", *counts, f"{line.mean():.1f}", spread, line.unhealthy().total(), *figures]]
    if (printed := line.published) is not None:
        size = len(printed.classes)
        found.append(
            [*head, line.label, "paper", size, table.classes, "", printed.mean, printed.sd, "", *printed.classes]
        )
    return found


def as_json(table: Table) -> dict[str, JSON]:
    """Everything, with every cell's own figures; shares between 0 and 1 there, per cent elsewhere."""
    return {
        "dataset": table.dataset,
        "metric": table.metric,
        "classes": table.classes,
        "lines": [line_as_json(line) for line in table.lines],
        "failed": [failed_as_json(row) for row in table.failed],
        "notes": notes(table),
    }


def line_as_json(line: Line) -> dict[str, JSON]:
    return {
        "label": line.label,
        **{**line.variant._asdict(), "settings": line.variant.chosen()},
        "mean": line.mean(),
        "sd": line.sd(),
        "values": {str(normal): value for normal, value in line.values().items()},
        "cells": [cell_as_json(row) for row in line.rows()],
        "not_ok": dict(line.unhealthy()),
        "paper": None if line.published is None else dict(line.published._asdict()),
        "paper_mean_of_the_same_classes": line.published_mean(),
    }


def cell_as_json(row: Row) -> dict[str, JSON]:
    return {
        "normal": row.normal,
        "seed": row.seed,
        "value": row.value,
        "interval": row.interval,
        "health": row.health,
    }


def failed_as_json(row: Row) -> dict[str, JSON]:
    return {"method": row.variant.method, "normal": row.normal, "seed": row.seed, "error": row.error}
