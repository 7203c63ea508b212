"""Tables about the paper: its own, its rivals, its claims."""

import statistics

from lines import ROOT, auroc, by_task, grouped, lines, mean_and_sd, percent, settings_of, task_of, tasks_of

from normscope.tables import layout, paper
from normscope.tables.layout import markdown_table
from normscope.tables.names import DATASET_NAMES, title
from normscope.tables.table import tables
from normscope.tables.variants import read

CLIP = {"size": "c1 = d", "root": "c1 = √d"}
INFORMATION = {"infonce": "NCE", "jsd": "JSD"}
ENTROPY = {"gaussian": "L2", "laplace": "L1"}


def table3(dataset: str) -> str:
    """Every method on every class of one data set, beside the paper's figures."""
    measured = tables(read([ROOT / "results" / "table3.jsonl"]), "auroc")
    return "".join(layout.markdown(table).partition("\n\n")[2] for table in measured if table.dataset == dataset)


def equal_budget() -> str:
    """Mean AUROC over those classes of each data set that all methods have, at the same budget, best first."""
    methods = grouped((line for line in lines("table3.jsonl") if line["budget"] == 60.0), lambda line: line["method"])
    aurocs = {method: {task_of(line): auroc(line) for line in own} for method, own in methods.items()}
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
                f"`{method}`",
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


def table1() -> str:
    """Information and entropy estimators of the base model, in two readings."""
    own = grouped(lines("estimators.jsonl"), settings_of("information", "entropy", "beta", "clip_scale"))
    named = {
        f"{INFORMATION[information]} + {ENTROPY[entropy]}, β = {beta:g}, {CLIP[scale]}": some
        for (information, entropy, beta, scale), some in own.items()
    }
    return markdown_table(*by_task(named, "estimators"))


def table2() -> str:
    """The three scores of one trained base model: mean and SD over repetitions of the test."""
    own = lines("scores.jsonl")
    body = [
        [
            f"`{score}`",
            *(mean_and_sd(line["auroc"][score], digits=2) for line in own),
            f"{statistics.mean(line['seconds'][score] for line in own):.1f} s",
        ]
        for score in ("rand", "mc", "ori")
    ]
    return markdown_table(["score", *(title(*task_of(line)) for line in own), "time for 500 images"], *body)


def beta() -> str:
    """AUROC of the base model at every β, in two readings; collapsed cells are marked."""
    own = grouped(sorted(lines("beta.jsonl"), key=settings_of("beta")), settings_of("clip_scale", "beta"))
    named = {f"{CLIP[scale]}, β = {beta:g}": own[scale, beta] for scale in CLIP for key, beta in own if key == scale}
    return markdown_table(*by_task(named, "reading"))


def lengths() -> str:
    """What the losses and the codes' lengths had become at the end, with c1 = √d."""
    own = [line for line in lines("beta.jsonl") if line["settings"]["clip_scale"] == "root" and line["curve"]]
    tasks, body = tasks_of(own), []
    for line in sorted(own, key=lambda line: (tasks.index(task_of(line)), line["settings"]["beta"])):
        last = line["curve"][-1]
        ratio = last["norm_normal"] / last["norm_anomalous"]
        figures = [last["information"], last["entropy"], last["norm_normal"], last["norm_anomalous"], ratio]
        body.append([title(*task_of(line)), f"{line['settings']['beta']:g}", *(f"{figure:.3g}" for figure in figures)])
    header = ["task", "β", "information", "entropy", "‖z‖ normal", "‖z‖ anomalous", "ratio"]
    return markdown_table(header, *body)


def long() -> str:
    """The long runs: AUROC of the paper's score and of the surprisal of the same codes."""
    body = []
    for (method, *task), own in grouped(lines("long.jsonl"), lambda line: (line["method"], *task_of(line))).items():
        epochs = {line["epoch"]: line for line in own}  # of an epoch that was measured twice, the last
        last = own[-1]
        norm, surprisal = (
            [100 * line["metrics"][metric] for line in epochs.values()] for metric in ("auroc", "auroc_surprisal")
        )
        body.append(
            [
                f"`{method}`, {title(*task)}",
                f"{max(epochs)} in {last['seconds'] / 60:.0f} min",
                f"{last['information']:.2f}",
                f"{norm[0]:.1f} → {norm[-1]:.1f}",
                f"{min(norm):.1f} to {max(norm):.1f}",
                f"{surprisal[0]:.1f} → {surprisal[-1]:.1f}",
            ]
        )
    header = ["run", "epochs", "information", "AUROC, first → last", "range", "surprisal of the codes, first → last"]
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
