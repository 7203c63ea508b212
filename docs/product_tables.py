"""Tables about what a user gets."""

import statistics
from collections.abc import Callable, Sequence

from lines import Row, auroc_at, columns_of, lines, markdown, mean_auroc, percent, with_spread

from normscope.evaluation.figures import PROPER, title

OURS = ("surprisal", "pretrained")
COMPARED = (0, 3, 6)


def digits() -> str:
    """Mean over the ten digits, every digit normal in its turn."""
    rows = lines("digits.jsonl")
    body = []
    for method in dict.fromkeys(row["method"] for row in rows):
        values = [row["metrics"]["auroc"] for row in rows if row["method"] == method]
        fit = statistics.mean(row["seconds"]["fit"] for row in rows if row["method"] == method)
        body.append([f"`{method}`", percent(statistics.mean(values)), percent(min(values)), f"{fit:.0f} s"])
    return markdown(["method", "mean AUROC of 10 classes", "worst class", "seconds to fit"], body)


def changes(name: str) -> str:
    """Each change of a method by itself, on the development classes; the best mean first."""
    own = lines(name)
    columns, body = columns_of(own), []
    for change in dict.fromkeys(row["change"] for row in own):
        some = [row for row in own if row["change"] == change]
        body.append([change, *(auroc_at(some, column) for column in columns), mean_auroc(some, columns)])
    body.sort(key=lambda line: (line[-1] != "–", line[-1]), reverse=True)
    return markdown(["changed", *(title(*column) for column in columns), "mean"], body)


def accuracy() -> str:
    """Ours on every class, at the budget of a user; the first seed of each."""
    body = []
    for dataset, method, budget in dict.fromkeys((r["dataset"], r["method"], r["budget"]) for r in ours()):
        own = {r["normal"]: r["metrics"]["auroc"] for r in ours() if (r["dataset"], r["method"]) == (dataset, method)}
        classes = [percent(own[normal]) if normal in own else "–" for normal in range(10)]
        mean = percent(statistics.mean(own.values())) if len(own) == 10 else "–"
        body.append([f"{PROPER[dataset]}, `{method}`, {budget / 60:g} min", *classes, f"**{mean}**"])
    return markdown(["", *(str(normal) for normal in range(10)), "mean"], body)


def ours() -> list[Row]:
    return [
        row
        for row in lines("accuracy.jsonl")
        if row["method"] in OURS and row["seed"] == 0 and row["dataset"] in PROPER
    ]


def rivals() -> str:
    """The mean of the three classes on which all methods ran, at one budget; SD over seeds where there are more."""
    own = lines("accuracy.jsonl")
    columns = dict.fromkeys(row["dataset"] for row in sorted(own, key=lambda row: row["dataset"] == "folder"))
    body = []
    for method in dict.fromkeys([*OURS, *(row["method"] for row in own)]):
        cells = [mean_of_classes([r for r in own if (r["dataset"], r["method"]) == (name, method)]) for name in columns]
        body.append([f"`{method}`", *cells])
    return markdown(["", *(PROPER.get(name, "magnetic-tile") for name in columns)], body)


def mean_of_classes(own: Sequence[Row]) -> str:
    """Of the classes 0, 3 and 6, or of the only one there is; with its SD over seeds."""
    by_seed: dict[int, list[float]] = {}
    for row in own:
        if row["normal"] in COMPARED:
            by_seed.setdefault(row["seed"], []).append(row["metrics"]["auroc"])
    full = [statistics.mean(values) for values in by_seed.values() if len(values) == max(map(len, by_seed.values()))]
    return with_spread(full)


def few_anomalies() -> str:
    """AUROC on kinds of anomalies that nobody labelled, by how many of another kind were labelled."""
    return by_amount(
        "few_anomalies.jsonl",
        "anomalies",
        "labelled anomalies",
        str,
        lambda rows: with_spread([row["metrics"]["auroc"] for row in rows]),
    )


def contamination() -> str:
    """AUROC, and how many of the hidden anomalies `fit` names, by their share of the training images."""
    return by_amount("contamination.jsonl", "share", "anomalies hidden", lambda share: f"{100 * share:g} %", hidden)


def by_amount(name: str, key: str, what: str, amount: Callable[[float], str], cell: Callable[[list[Row]], str]) -> str:
    """A line for each method and task, a column for each amount of something, a cell of the rows of all seeds."""
    own = lines(name)
    amounts, body = sorted({row[key] for row in own}), []
    for method in dict.fromkeys(row["method"] for row in own):
        for task in columns_of(own):
            some = [row for row in own if (row["dataset"], row["normal"], row["method"]) == (*task, method)]
            by = [[row for row in some if row[key] == n] for n in amounts]
            body.append([f"`{method}`, {title(*task)}", *(cell(rows) if rows else "–" for rows in by)])
    return markdown([what, *map(amount, amounts)], body)


def hidden(rows: list[Row]) -> str:
    [row] = rows
    named = f"{row['named_rightly']} of {row['hidden']}" if row["hidden"] else "none"
    wrongly = row["named"] - row["named_rightly"]
    return f"{percent(row['metrics']['auroc'])}; names {named}" + (f" and {wrongly} others" if wrongly else "")


def patches() -> str:
    """How well heat maps find a pasted patch."""
    body = [
        [f"`{row['method']}`, {title(row['dataset'], row['normal'])}", *(percent(v) for v in row["metrics"].values())]
        for row in lines("patches.jsonl")
    ]
    return markdown(["", "pixel AUROC", "PRO", "hottest pixel in the patch"], body)


def tiles() -> str:
    """Photographs of surface defects: whole images, and where in them."""
    own = [row for row in lines("accuracy.jsonl") if row["dataset"] == "folder"]
    body = []
    for method in dict.fromkeys(row["method"] for row in sorted(own, key=lambda row: -row["metrics"]["auroc"])):
        some = [row["metrics"] for row in own if row["method"] == method]
        values = [[one[key] for one in some if key in one] for key in ("auroc", "pixel_auroc", "pro")]
        body.append([f"`{method}`", *map(with_spread, values)])
    return markdown(["", "image AUROC", "pixel AUROC", "PRO"], body)
