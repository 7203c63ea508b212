"""Tables about the paper's objective: what it prefers before any training, and what came out of its readings."""

import statistics

from lines import auroc, by_task, grouped, lines, mean_and_sd, percent, settings_of, task_of, tasks_of

from normscope.benchmark.results import Result
from normscope.objective.entropy import gaussian, l2, laplace, laplace_sum
from normscope.objective.landscape import optimum
from normscope.tables.layout import markdown_table
from normscope.tables.names import DATASET_NAMES, title

READINGS = {"L1 mean": laplace, "squared L2 mean": gaussian, "L2": l2, "L1 sum": laplace_sum}
BETAS = (1.0, 5.0, 20.0)
SIZES = (128, 1024)
OBJECTIVES = ("nothing (untrained)", "I", "I − β·H", "I + γ·CE", "I − β·H + γ·CE")


def landscape() -> str:
    """The best loss of an idealised code for each reading, with its number of active entries; 64 images a batch."""
    body = [
        [f"{norm}, c1 = {name}", *(best(entropy, beta, d, d**power) for d in SIZES for beta in BETAS)]
        for norm, entropy in READINGS.items()
        for name, power in (("√d", 0.5), ("d", 1.0))
    ]
    return markdown_table(["reading", *(f"d = {d}, β = {beta:g}" for d in SIZES for beta in BETAS)], *body)


def best(entropy, beta: float, size: int, scale: float) -> str:
    found = optimum(entropy, beta, size, scale)
    return f"{found.loss:.2f} ({found.active})" if found.alive else "collapse"


def readings() -> str:
    """The default readings on every class: means over seeds, and the SD over seeds of the mean over classes.

    Lines with one epoch ended after 300 steps whatever the class; the default has more epochs, and a stop.
    """
    default = [line for line in lines("readings.jsonl") if line["settings"]["score"] in ("ratio", "surprisal")]
    body = []
    kinds = grouped(default, lambda line: (line["method"], line["dataset"], *settings_of("epochs", "score")(line)))
    for (method, dataset, epochs, score), own in kinds.items():
        classes = grouped(own, lambda line: line["normal"])
        values = [percent(statistics.mean(map(auroc, classes[n]))) if n in classes else "–" for n in range(10)]
        whole = [seeds for seeds in grouped(own, lambda line: line["seed"]).values() if len(seeds) == 10]
        mean = mean_and_sd([statistics.mean(map(auroc, seeds)) for seeds in whole])
        steps = "300" if epochs == 1 else "/".join(str(n) for n in sorted({line["steps"] for line in own}))
        seeds = str(len(whole)) if whole else "1, in part"
        name = f"`{method}`" if score == "ratio" else f"`{method}`, `score={score}`"
        body.append([name, DATASET_NAMES[dataset], *values, mean, seeds, steps])
    return markdown_table(["method", "data set", *map(str, range(10)), "mean", "seeds", "steps"], *body)


def terms() -> str:
    """The paper's norm score of `base`: untrained, and with each choice of terms."""
    by_norm = [line for line in lines("readings.jsonl") if line["settings"]["score"] == "ori"]
    tasks = tasks_of(by_norm)
    body = []
    named = grouped(by_norm, objective)
    for name in filter(named.get, OBJECTIVES):
        by_class = grouped(named[name], task_of)
        body.append([name, *(mean_and_sd([*map(auroc, by_class.get(task, []))]) for task in tasks)])
    return markdown_table(["maximised", *(title(*task) for task in tasks)], *body)


def objective(line: Result) -> str:
    if line["epochs"] == 0:
        return OBJECTIVES[0]
    return OBJECTIVES[1 + bool(line["settings"]["beta"]) + 2 * bool(line["settings"]["gamma"])]


def shifts() -> str:
    """The norm score of `base` with other pseudo-anomalies than rotations, on digits that look alike upside down."""
    others = lines("shifts.jsonl")
    tasks = set(map(task_of, others))
    turned = [line for line in lines("readings.jsonl") if is_by_norm(line) and task_of(line) in tasks]
    named = grouped([*turned, *others], lambda line: f"`{line['settings']['shift']}`")
    return markdown_table(*(row[:-1] for row in by_task(named, "shift")))


def is_by_norm(line: Result) -> bool:
    """With all three terms, scored by the norm."""
    return line["settings"]["score"] == "ori" and objective(line) == OBJECTIVES[-1]
