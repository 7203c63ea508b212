"""Tables about the paper: its own, its rivals, its claims."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lines import ROOT, auroc, by_task, grouped, lines, mean_and_sd, percent, settings_of, task_of, tasks_of

from normscope.benchmark.results import Result
from normscope.objective.entropy import laplace
from normscope.objective.landscape import optimum
from normscope.settings import JSON
from normscope.tables import layout, paper
from normscope.tables.layout import markdown_table
from normscope.tables.names import DATASET_NAMES, title
from normscope.tables.table import tables
from normscope.tables.variants import read

READINGS = {("paper", 0.0): "literal", ("laptop", 0.0): "two terms", ("laptop", 2.0): "three terms"}  # preset and γ
FOLLOWED = 5  # epochs of the runs of Figures 2 and 4
INFORMATION = {"infonce": "NCE", "jsd": "JSD"}
ENTROPY = {"gaussian": "L2", "laplace": "L1"}


def table3(dataset: str) -> str:
    """Every method on every class of one data set, beside the paper's figures."""
    measured = read([ROOT / "results" / "table3.jsonl"])
    # A budget is an upper limit, and 300 steps reach none of theirs: it would only make the rows look unlike.
    default = [m for m in read([ROOT / "results" / "readings.jsonl"]) if is_default(m.cell.settings)]
    measured += [replace(m, cell=replace(m.cell, budget=60.0)) for m in default]
    every = tables(measured, "auroc")
    return "".join(layout.markdown(table).partition("\n\n")[2] for table in every if table.dataset == dataset)


def is_default(settings: Mapping[str, JSON]) -> bool:
    """The default reading of `base` and `extension` and its own score, for the 300 steps that a minute allows."""
    return settings["preset"] == "laptop" and settings["score"] == "ratio" and settings["epochs"] == 1


def equal_budget() -> str:
    """Mean AUROC over those classes of each data set that all methods have, at the same budget, best first."""
    measured = [line for line in lines("table3.jsonl") if line["budget"] == 60.0]
    measured += [line for line in lines("readings.jsonl") if is_default(line["settings"])]
    methods = grouped(measured, row_name)
    aurocs = {
        method: {task: statistics.mean(map(auroc, seeds)) for task, seeds in grouped(own, task_of).items()}
        for method, own in methods.items()
    }
    datasets = grouped(sorted(set.intersection(*map(set, aurocs.values()))), lambda task: task[0])
    means = {
        method: [statistics.mean(own[task] for task in tasks) for tasks in datasets.values()]
        for method, own in aurocs.items()
    }
    body = []
    for method in sorted(means, key=lambda method: statistics.mean(means[method]), reverse=True):
        own = methods[method]
        body.append(
            [
                method,
                *map(percent, (*means[method], statistics.mean(means[method]))),
                f"{statistics.median(line['steps'] for line in own):.0f}",
                f"{statistics.median(line['seconds']['fit'] for line in own):.0f} s",
                f"{statistics.median(line['images_per_second'] for line in own):.0f}",
            ]
        )
    heads = [
        DATASET_NAMES[name] + ("" if len(tasks) == 10 else f" {', '.join(str(normal) for _, normal in tasks)}")
        for name, tasks in datasets.items()
    ]
    return markdown_table(["method", *heads, "mean", "steps", "time to fit", "images scored a second"], *body)


def row_name(line: Result) -> str:
    return f"`{line['method']}`" + (", literal" if line["settings"].get("preset") == "paper" else "")


def table1() -> str:
    """Information and entropy estimators of the base model, in two readings."""
    own = [line for line in lines("estimators.jsonl") if line["epochs"] != FOLLOWED]
    own.sort(key=lambda line: (*place(line), *pair(line)))
    return markdown_table(*by_task(grouped(own, estimators), "reading, estimators"))


def pair(line: Result) -> tuple[int, int]:
    """The places of its estimators in the paper's table."""
    s = line["settings"]
    return [*INFORMATION].index(s["information"]), [*ENTROPY].index(s["entropy"])


def estimators(line: Result) -> str:
    s = line["settings"]
    if line["epochs"] == 0:
        return "untrained"
    return f"{reading(line)}, β = {s['beta']:g}, {INFORMATION[s['information']]} + {ENTROPY[s['entropy']]}"


def reading(line: Result) -> str:
    return READINGS[line["settings"]["preset"], line["settings"]["gamma"]]


def table2() -> str:
    """The three scores of one trained base model: mean and SD over repetitions of the test."""
    measured = {task_of(line): line for line in lines("scores.jsonl")}
    own = [measured[task] for task in tasks_of(measured.values())]
    body = [
        [
            f"`{score}`, {len(own[0]['auroc'][score])} ×",
            *(mean_and_sd(line["auroc"][score], digits=2) for line in own),
            f"{statistics.mean(line['seconds'][score] for line in own):.1f} s",
        ]
        for score in ("rand", "mc", "ori")
    ]
    images = own[0]["test_images"]
    return markdown_table(["score", *(title(*task_of(line)) for line in own), f"time for {images} images"], *body)


def beta() -> str:
    """AUROC of the base model at every β, in three readings; collapsed cells are marked."""
    own = sorted((line for line in lines("beta.jsonl") if line["epochs"] != FOLLOWED), key=place)
    named = grouped(
        own, lambda line: f"{reading(line)}, β = {line['settings']['beta']:g}" if line["epochs"] != 0 else "untrained"
    )
    return markdown_table(*by_task(named, "reading"))


def place(line: Result) -> tuple:
    """Untrained first, then by reading and β."""
    return line["epochs"] != 0, [*READINGS.values()].index(reading(line)), line["settings"]["beta"]


def lengths() -> str:
    """Losses and norms at the end, means over tasks and seeds, and how much longer normal codes are than others."""
    own = sorted((line for line in lines("beta.jsonl") if line["epochs"] == 2), key=place)
    tasks, body = tasks_of(own), []
    for (name, beta), some in grouped(own, lambda line: (reading(line), line["settings"]["beta"])).items():
        last = {task: [line["curve"][-1] for line in seeds] for task, seeds in grouped(some, task_of).items()}
        every = [point for points in last.values() for point in points]
        information, entropy, norm = (
            statistics.mean(point[kind] for point in every) for kind in ("information", "entropy", "norm_normal")
        )
        figures = [f"{information:.2f}", f"{beta * entropy:.2f}", best_norm(beta), f"{norm:.1f}"]
        body.append([f"{name}, β = {beta:g}", *figures, *(ratio_of_norms(last.get(task, [])) for task in tasks)])
    header = ["reading", "information", "β · entropy", "‖z‖ of idealised codes", "‖z‖ normal"]
    return markdown_table([*header, *(title(*task) for task in tasks)], *body)


def best_norm(beta: float) -> str:
    """‖z‖ of the best idealised code of the laptop's two terms; without β there is no longest."""
    if not beta:
        return "–"
    best = optimum(laplace, beta, 1024, 1024**0.5, images=32)
    return f"{best.value * best.active**0.5:.1f}"


def ratio_of_norms(points: Sequence[Mapping[str, float]]) -> str:
    """Of normal to anomalous test images; the range over seeds."""
    ratios = sorted({f"{point['norm_normal'] / point['norm_anomalous']:.2f}" for point in points}, key=float)
    return " to ".join(dict.fromkeys([ratios[0], ratios[-1]])) if ratios else "–"


def long() -> str:
    """The long runs: AUROC of the norm, of its ratio form and of the surprisal of the same codes; losses and norms."""
    body = []

    def run(line: Result) -> tuple:
        return line["reading"], line["epochs"], line.get("train_images"), *task_of(line)

    for (name, _, images, *task), own in grouped(lines("long.jsonl"), run).items():
        epochs = {line["epoch"]: line for line in own}  # of an epoch that was measured twice, the last
        trained = [line for epoch, line in sorted(epochs.items()) if epoch]
        if not trained:
            continue
        last, norms = trained[-1], [line["metrics"]["auroc"] for line in trained]
        others = [norm for label, norm in enumerate(last["norms"]) if label != last["normal"]]
        body.append(
            [
                f"{name}, {title(*task)}" + (f", {images} images" if images else ""),
                f"{last['epoch']} ({last['step']})",
                f"{max(0.0, last['information']):.2f}",
                f"{last['beta'] * last['entropy']:.2f}",
                f"{100 * last['zeros']:.0f} %",
                f"{last['norms'][last['normal']]:.3g}",
                f"{min(others):.3g} to {max(others):.3g}",
                percent(epochs[0]["metrics"]["auroc"]),
                f"{percent(norms[-1])} ({percent(min(norms))} to {percent(max(norms))})",
                percent(last["metrics"]["auroc_ratio"]),
                percent(last["metrics"]["auroc_surprisal"]),
            ]
        )
    header = ["run", "epochs (steps)", "information", "β · entropy", "zeros", "‖z‖ normal", "‖z‖ of the other classes"]
    header += ["untrained", "norm, last (range)", "ratio", "surprisal of the codes"]
    return markdown_table(header, *body)


def published() -> str:
    """The rivals at published settings, or as near as the budget allows, beside the figures published for them."""
    methods = grouped(lines("published.jsonl"), lambda line: line["method"])
    tasks = tasks_of(line for own in methods.values() for line in own)
    header, *measured = by_task(methods)
    body = []
    for (method, own), line in zip(methods.items(), measured, strict=True):
        steps = statistics.mean(line["steps"] for line in own)
        printed = [row.classes[normal] for name, normal in tasks if (row := paper.row(name, method))]
        body.append([f"`{method}`, {steps:.0f} steps", *line[1:]])
        body.append(["published", *map(layout.shown, (*printed, statistics.mean(printed)))])
    return markdown_table(header, *body)


def published_curve() -> str:
    """How AUROC grows with the steps, where the run stopped before its published end."""
    body = []
    for line in lines("published.jsonl"):
        if line.get("curve"):
            points = ", ".join(f"{point['step']}: {percent(point['auroc'])}" for point in line["curve"])
            body.append([f"`{line['method']}`, {title(*task_of(line))}", points])
    return markdown_table(["", "AUROC after so many steps"], *body)


def entropy_term() -> str:
    """An autoencoder with the paper's entropy term."""
    own = grouped(lines("entropy_term.jsonl"), settings_of("noise", "beta"))
    named = {f"β = {beta:g}" + (f", noise {noise:g}" if noise else ""): some for (noise, beta), some in own.items()}
    return markdown_table(*by_task(named))
