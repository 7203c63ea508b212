"""What the tables are made of: the lines in results/, and figures written in one way."""

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
Row = dict  # one line of results/


def lines(name: str) -> list[Row]:
    """Those that did not fail; none of a file that is not there yet."""
    path = ROOT / "results" / name
    text = path.read_text() if path.exists() else ""
    return [row for row in map(json.loads, text.splitlines()) if row["error"] is None]


def columns_of(rows: Iterable[Row]) -> list[tuple[str, int]]:
    return sorted(
        {(row["dataset"], row["normal"]) for row in rows}, key=lambda cell: (cell[0] != "fashion-mnist", cell)
    )


def auroc_at(some: Sequence[Row], column: tuple[str, int]) -> str:
    """Marked where the codes had collapsed."""
    for row in some:
        if (row["dataset"], row["normal"]) == column:
            return percent(row["metrics"]["auroc"]) + ("" if row.get("health", "ok") == "ok" else "†")
    return "–"


def mean_auroc(some: Sequence[Row], columns: Sequence[tuple[str, int]]) -> str:
    return percent(statistics.mean(row["metrics"]["auroc"] for row in some)) if len(some) == len(columns) else "–"


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def with_spread(values: Sequence[float], digits: int = 1) -> str:
    """Their mean in per cent, with their SD where there are more than one."""
    if not values:
        return "–"
    spread = f" ± {100 * statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return percent(statistics.mean(values)) + spread


def markdown(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *body]) + "\n"
