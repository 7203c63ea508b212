"""Writes the tables of README.md and docs/*.md from the lines in results/; --check only says if they are current.

A table stands between `<!-- NAME -->` and `<!-- end of NAME -->`; NAME is one of the functions in TABLES.
"""

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from normscope.methods import settings_of
from normscope.settings import to_json

ROOT = Path(__file__).parent.parent
METHODS = ("surprisal", "knn", "random-encoder", "extension", "base")
SHORT = {"fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "digits": "digits"}

Row = dict  # one line of results/
Cells = dict[tuple[str, int], list[float]]


def main() -> None:
    stale = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if update(path)]
    if stale and "--check" in sys.argv:
        sys.exit(
            f"{', '.join(str(path.relative_to(ROOT)) for path in stale)}: not what results/ says; run `make tables`"
        )


def update(path: Path) -> bool:
    """Rewrites the tables of one page (unless only checking) and returns whether they differed."""
    before = after = path.read_text()
    for name, table in TABLES.items():
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.S)
        after = block.sub(lambda found, table=table: found[1] + table() + found[2], after)
    if after != before and "--check" not in sys.argv:
        path.write_text(after)
    return after != before


def core() -> str:
    """Every method on the six cells that nothing was chosen on, at the same budget."""
    return by_method(lines("core.jsonl"))


def digits() -> str:
    """Mean over the ten digits, every digit normal in its turn."""
    rows = lines("digits.jsonl")
    body = []
    for method in present(rows):
        values = [row["metrics"]["auroc"] for row in rows if row["method"] == method]
        fit = statistics.mean(row["seconds"]["fit"] for row in rows if row["method"] == method)
        body.append([f"`{method}`", percent(statistics.mean(values)), percent(min(values)), f"{fit:.0f} s"])
    return markdown(["method", "mean AUROC of 10 classes", "worst class", "seconds to fit"], body)


def development() -> str:
    """Variants of `surprisal` on the development classes: what differs from the defaults, and what that gave."""
    rows = [row for row in lines("development.jsonl") if row["method"] == "surprisal"]
    columns = columns_of(rows)
    variants: dict[str, Cells] = {}
    for row in rows:
        cell = (row["dataset"], row["normal"])
        variants.setdefault(difference(row), {}).setdefault(cell, []).append(row["metrics"]["auroc"])
    body = [
        [name, *(mean_of(cells, column) for column in columns), overall(cells, columns)]
        for name, cells in variants.items()
    ]
    body.sort(key=lambda line: line[-1], reverse=True)
    return markdown(["differs from the defaults in", *map(title, columns), "mean"], body)


TABLES: dict[str, Callable[[], str]] = {"core": core, "digits": digits, "development": development}


def by_method(rows: Sequence[Row]) -> str:
    columns = columns_of(rows)
    body = []
    for method in present(rows):
        cells: Cells = {}
        own = [row for row in rows if row["method"] == method]
        for row in own:
            cells.setdefault((row["dataset"], row["normal"]), []).append(row["metrics"]["auroc"])
        name = f"`{method}`" + ("" if all(row["health"] == "ok" for row in own) else " (collapsed)")
        body.append([name, *(mean_of(cells, column) for column in columns), overall(cells, columns)])
    return markdown(["method", *map(title, columns), "mean"], body)


def lines(name: str) -> list[Row]:
    text = (ROOT / "results" / name).read_text()
    return [row for row in map(json.loads, text.splitlines()) if row["error"] is None]


def difference(row: Row) -> str:
    usual = to_json(settings_of("surprisal")())
    changed = [f"`{key}={value}`" for key, value in row["settings"].items() if usual.get(key) != value]
    return ", ".join(changed) or "nothing"


def present(rows: Iterable[Row]) -> list[str]:
    found = {row["method"] for row in rows}
    return [method for method in METHODS if method in found]


def columns_of(rows: Iterable[Row]) -> list[tuple[str, int]]:
    return sorted(
        {(row["dataset"], row["normal"]) for row in rows}, key=lambda cell: (cell[0] != "fashion-mnist", cell)
    )


def title(cell: tuple[str, int]) -> str:
    return f"{SHORT[cell[0]]} {cell[1]}"


def mean_of(cells: Cells, column: tuple[str, int]) -> str:
    return percent(statistics.mean(cells[column])) if column in cells else "–"


def overall(cells: Cells, columns: Sequence[tuple[str, int]]) -> str:
    if any(column not in cells for column in columns):
        return "–"
    return percent(statistics.mean(statistics.mean(cells[column]) for column in columns))


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def markdown(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *body]) + "\n"


if __name__ == "__main__":
    main()
