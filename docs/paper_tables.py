"""Tables about the paper: its own, its rivals, its claims."""

import statistics

from lines import ROOT, auroc_at, columns_of, lines, markdown, mean_auroc, percent, with_spread

from normscope.evaluation import layout, paper, rows, tables
from normscope.evaluation.figures import PROPER, title


def table3(dataset: str) -> str:
    """Every method on every class of one data set, beside the paper's figures."""
    found = tables.tables(rows.read([ROOT / "results" / "table3.jsonl"], "auroc"), "auroc")
    return "".join(layout.markdown(table).partition("\n\n")[2] for table in found if table.dataset == dataset)


def equal_budget() -> str:
    """Mean AUROC over those classes of each data set that all methods have, at the same budget, best first."""
    own = [row for row in lines("table3.jsonl") if row["budget"] == 60.0]
    found = {(row["method"], row["dataset"], row["normal"]): row["metrics"]["auroc"] for row in own}
    methods, names, every = (list(dict.fromkeys(key[place] for key in found)) for place in range(3))
    common = {
        name: [normal for normal in sorted(every) if all((method, name, normal) in found for method in methods)]
        for name in names
    }
    common = {name: some for name, some in common.items() if some}
    means = {
        method: [statistics.mean(found[method, name, normal] for normal in some) for name, some in common.items()]
        for method in methods
    }
    ranked = sorted(methods, key=lambda method: statistics.mean(means[method]), reverse=True)
    body = []
    for method in ranked:
        some = [row for row in own if row["method"] == method]
        body.append(
            [
                f"`{method}`",
                *map(percent, (*means[method], statistics.mean(means[method]))),
                f"{statistics.median(row['steps'] for row in some):.0f}",
                f"{statistics.median(row['seconds']['fit'] for row in some):.0f} s",
                f"{statistics.median(row['images_per_second'] for row in some):.0f}",
            ]
        )
    heads = [
        PROPER[name] + ("" if len(some) == 10 else f" {', '.join(map(str, some))}") for name, some in common.items()
    ]
    return markdown(["method", *heads, "mean", "steps", "time to fit", "images scored a second"], body)


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
        cells = [with_spread(row["auroc"][score], digits=2) for row in own]
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


def clip(scale: str) -> str:
    return {"size": "c1 = d", "root": "c1 = √d"}[scale]


def published() -> str:
    """The rivals at published settings, or as near as the budget allows, beside the figures published for them."""
    own, body = lines("published.jsonl"), []
    columns = columns_of(own)
    for method in dict.fromkeys(row["method"] for row in own):
        some = [row for row in own if row["method"] == method]
        steps = statistics.mean(row["steps"] for row in some)
        body.append(
            [f"`{method}`, {steps:.0f} steps", *(auroc_at(some, c) for c in columns), mean_auroc(some, columns)]
        )
        printed = [figures.classes[normal] for name, normal in columns if (figures := paper.row(name, method))]
        body.append(["published", *(f"{value:.1f}" for value in printed), f"{statistics.mean(printed):.1f}"])
    return markdown(["", *(title(*column) for column in columns), "mean"], body)


def published_curve() -> str:
    """How AUROC grows with the steps, where the run stopped before its published end."""
    body = []
    for row in lines("published.jsonl"):
        if row.get("curve"):
            points = ", ".join(f"{point['step']}: {percent(point['auroc'])}" for point in row["curve"])
            body.append([f"`{row['method']}`, {title(row['dataset'], row['normal'])}", points])
    return markdown(["", "AUROC after so many steps"], body)


def entropy_term() -> str:
    """An autoencoder with the paper's entropy term."""
    own, body = lines("entropy_term.jsonl"), []
    columns = columns_of(own)
    for noise, beta in dict.fromkeys((row["settings"]["noise"], row["settings"]["beta"]) for row in own):
        some = [row for row in own if {"noise": noise, "beta": beta}.items() <= row["settings"].items()]
        name = f"β = {beta:g}" + (f", noise {noise:g}" if noise else "")
        body.append([name, *(auroc_at(some, column) for column in columns), mean_auroc(some, columns)])
    return markdown(["", *(title(*column) for column in columns), "mean"], body)
