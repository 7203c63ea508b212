"""Writes the tables of README.md and docs/*.md from the lines in results/; --check only says if they are current.

A table stands between `<!-- NAME -->` and `<!-- end of NAME -->`; NAME is one of the functions in TABLES.
"""

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from normscope.evaluation import layout, rows, tables
from normscope.evaluation.figures import PROPER, title
from normscope.methods import settings_of
from normscope.settings import to_json

ROOT = Path(__file__).parent.parent
METHODS = ("surprisal", "knn", "random-encoder", "extension", "base")

Row = dict  # one line of results/
Cells = dict[tuple[str, int], list[float]]


def main() -> None:
    stale = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))] if update(path)]
    if stale and "--check" in sys.argv:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"{names}: not what results/ says; run `make results-tables`")


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
    return markdown(["differs from the defaults in", *(title(*column) for column in columns), "mean"], body)


def table3(dataset: str) -> str:
    """Every method on every class of one data set, beside the paper's figures."""
    found = tables.tables(rows.read([ROOT / "results" / "table3.jsonl"], "auroc"), "auroc")
    return "".join(layout.markdown(table).partition("\n\n")[2] for table in found if table.dataset == dataset)


def equal_budget() -> str:
    """Mean AUROC over the classes of each data set, all methods at the same budget, best first."""
    own = [row for row in lines("table3.jsonl") if row["budget"] == 60.0]
    names = list(dict.fromkeys(row["dataset"] for row in own))
    body = []
    for method in dict.fromkeys(row["method"] for row in own):
        values = [[r["metrics"]["auroc"] for r in own if (r["method"], r["dataset"]) == (method, n)] for n in names]
        means = [statistics.mean(some) if len(some) == 10 else None for some in values]
        overall = statistics.mean(means) if None not in means else None
        body.append([f"`{method}`", *("–" if mean is None else percent(mean) for mean in (*means, overall))])
    body.sort(key=lambda line: (line[-1] != "–", line[-1]), reverse=True)
    return markdown(["method", *(PROPER[name] for name in names), "mean"], body)


def table1() -> str:
    """Information and entropy estimators of the base model, in two readings."""
    own, pairs = lines("estimators.jsonl"), {"infonce": "NCE", "jsd": "JSD"}
    norms, columns = {"gaussian": "L2", "laplace": "L1"}, columns_of(own)
    body = []
    for beta, scale in dict.fromkeys((row["settings"]["beta"], row["settings"]["clip_scale"]) for row in own):
        for information in pairs:
            for entropy in norms:
                wanted = {"beta": beta, "clip_scale": scale, "information": information, "entropy": entropy}
                some = [row for row in own if wanted.items() <= row["settings"].items()]
                name = f"{pairs[information]} + {norms[entropy]}, β = {beta:g}, {clip(scale)}"
                body.append([name, *(auroc_at(some, column) for column in columns), mean_auroc(some, columns)])
    return markdown(["estimators", *(title(*column) for column in columns), "mean"], body)


def table2() -> str:
    """The three scores of one trained base model: mean and SD over repetitions of the test."""
    own, body = lines("scores.jsonl"), []
    names = [title(row["dataset"], row["normal"]) for row in own]
    for score in ("rand", "mc", "ori"):
        cells = []
        for row in own:
            values = [100 * value for value in row["auroc"][score]]
            spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread}")
        seconds = sum(row["seconds"][score] for row in own) / max(1, len(own))
        body.append([f"`{score}`", *cells, f"{seconds:.1f} s"])
    return markdown(["score", *names, "time for 500 images"], body)


def beta() -> str:
    """AUROC of the base model at every β, in two readings; collapsed cells are marked."""
    own = lines("beta.jsonl")
    columns, body = columns_of(own), []
    for scale in ("size", "root"):
        for value in sorted({row["settings"]["beta"] for row in own}):
            wanted = {"beta": value, "clip_scale": scale}
            some = [row for row in own if wanted.items() <= row["settings"].items()]
            body.append(
                [f"{clip(scale)}, β = {value:g}", *(auroc_at(some, c) for c in columns), mean_auroc(some, columns)]
            )
    return markdown(["reading", *(title(*column) for column in columns), "mean"], body)


def lengths() -> str:
    """What the losses and the codes' lengths had become at the end, with c1 = √d."""
    own = [row for row in lines("beta.jsonl") if row["settings"]["clip_scale"] == "root" and row["curve"]]
    body = []
    for column in columns_of(own):
        some = [row for row in own if (row["dataset"], row["normal"]) == column]
        for row in sorted(some, key=lambda row: row["settings"]["beta"]):
            last = row["curve"][-1]
            gap = last["norm_normal"] / last["norm_anomalous"]
            figures = [last["information"], last["entropy"], last["norm_normal"], last["norm_anomalous"], gap]
            body.append([title(*column), f"{row['settings']['beta']:g}", *(f"{figure:.3g}" for figure in figures)])
    header = ["task", "β", "information", "entropy", "‖z‖ normal", "‖z‖ anomalous", "ratio"]
    return markdown(header, body)


def long() -> str:
    """The long runs: AUROC of the paper's score and of the surprisal of the same codes."""
    own, body = lines("long.jsonl"), []
    for method, dataset, normal in dict.fromkeys((row["method"], row["dataset"], row["normal"]) for row in own):
        some = {
            row["epoch"]: row
            for row in own
            if (row["method"], row["dataset"], row["normal"]) == (method, dataset, normal)
        }
        norm, surprisal = ([100 * row["metrics"][m] for row in some.values()] for m in ("auroc", "auroc_surprisal"))
        last = list(some.values())[-1]
        body.append(
            [
                f"`{method}`, {title(dataset, normal)}",
                f"{max(some)} in {last['seconds'] / 60:.0f} min",
                f"{last['information']:.2f}",
                f"{norm[0]:.1f} → {norm[-1]:.1f}",
                f"{min(norm):.1f} to {max(norm):.1f}",
                f"{surprisal[0]:.1f} → {surprisal[-1]:.1f}",
            ]
        )
    header = ["run", "epochs", "information", "AUROC, first → last", "range", "surprisal of the codes, first → last"]
    return markdown(header, body)


TABLES: dict[str, Callable[[], str]] = {
    "core": core,
    "digits": digits,
    "development": development,
    "table3 mnist": lambda: table3("mnist"),
    "table3 fashion-mnist": lambda: table3("fashion-mnist"),
    "table3 cifar10": lambda: table3("cifar10"),
    "equal budget": equal_budget,
    "table1": table1,
    "table2": table2,
    "beta": beta,
    "lengths": lengths,
    "long": long,
}


def clip(scale: str) -> str:
    return {"size": "c1 = d", "root": "c1 = √d"}[scale]


def auroc_at(some: Sequence[Row], column: tuple[str, int]) -> str:
    found = [row for row in some if (row["dataset"], row["normal"]) == column]
    return "–" if not found else percent(found[0]["metrics"]["auroc"]) + ("" if found[0]["health"] == "ok" else "†")


def mean_auroc(some: Sequence[Row], columns: Sequence[tuple[str, int]]) -> str:
    return percent(statistics.mean(row["metrics"]["auroc"] for row in some)) if len(some) == len(columns) else "–"


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
    return markdown(["method", *(title(*column) for column in columns), "mean"], body)


def lines(name: str) -> list[Row]:
    """Those that did not fail; none of a file that is not there yet."""
    path = ROOT / "results" / name
    text = path.read_text() if path.exists() else ""
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
