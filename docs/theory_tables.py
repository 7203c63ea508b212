"""Tables about the paper's objective: what it prefers before any training, and what came out of its readings."""

import statistics

from lines import auroc, grouped, lines, mean_and_sd, percent, task_of, tasks_of

from normscope.benchmark.results import Result
from normscope.objective.entropy import gaussian, l2, laplace, laplace_sum
from normscope.objective.landscape import optimum
from normscope.tables.layout import markdown_table
from normscope.tables.names import DATASET_NAMES, title

READINGS = {"L1 mean": laplace, "squared L2 mean": gaussian, "L2": l2, "L1 sum": laplace_sum}
BETAS = (1.0, 5.0, 20.0)
SIZES = (128, 1024)


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
    """The default readings on every class."""
    default = [line for line in lines("readings.jsonl") if line["settings"]["score"] == "ratio"]
    body = []
    for (method, dataset), own in grouped(default, lambda line: (line["method"], line["dataset"])).items():
        values = {line["normal"]: auroc(line) for line in own}
        mean = percent(statistics.mean(values.values())) if len(values) == 10 else "–"
        classes = [percent(values[normal]) if normal in values else "–" for normal in range(10)]
        body.append([f"`{method}`", DATASET_NAMES[dataset], *classes, mean])
    return markdown_table(["method", "data set", *map(str, range(10)), "mean"], *body)


def terms() -> str:
    """The paper's norm score of `base`: untrained, with two terms, and with all three."""
    by_norm = [line for line in lines("readings.jsonl") if line["settings"]["score"] == "ori"]
    tasks = tasks_of(by_norm)
    body = []
    for name, own in grouped(by_norm, objective).items():
        by_class = grouped(own, task_of)
        body.append([name, *(mean_and_sd([*map(auroc, by_class.get(task, []))]) for task in tasks)])
    return markdown_table(["maximised", *(title(*task) for task in tasks)], *body)


def objective(line: Result) -> str:
    if line["epochs"] == 0:
        return "nothing (untrained, three seeds)"
    return "I − β·H + γ·CE" if line["settings"]["gamma"] else "I − β·H"
