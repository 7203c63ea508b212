"""Tables about what a user gets."""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence

from lines import auroc, by_task, grouped, lines, mean_and_sd, percent, task_of, tasks_of

from normscope.benchmark.results import Result
from normscope.tables.layout import markdown_table, shown
from normscope.tables.names import DATASET_NAMES, title

OURS = ("surprisal", "pretrained")
SHOWN = ("auto", "surprisal")
FITS = {"auto": "`fit`", "pretrained": "`fit --encoder efficientnet-lite0`"}
COMPARED = (0, 3, 6)
CLASSES = 10
CONTROL = "knn"  # by pixels: nothing is learnt
COLUMNS = {
    "auroc": "image AUROC",
    "tpr_at_fpr_01": "found at 1 % false alarms",
    "tpr_at_fpr_05": "at 5 %",
    "pixel_auroc": "pixel AUROC",
    "pro": "PRO",
}
RATES = ("auroc", "tpr_at_fpr_01", "tpr_at_fpr_05")


def by_default() -> str:
    """What `fit` gives without options, beside the nearest neighbours of pixels and the best of the tools measured on
    the same folder and encoder."""
    small = lines("digits.jsonl") + lines("accuracy.jsonl")
    control = grouped((one for one in small + lines("table3.jsonl") if one["method"] == CONTROL), dataset_of)
    body = []
    for dataset, own in grouped((one for one in small if one["method"] == "auto"), dataset_of).items():
        means = [mean_and_sd(means_of(whole_seeds(own), name)) for name in RATES]
        pixels = mean_and_sd(means_of(whole_seeds(control[dataset]), "auroc"))
        body.append([DATASET_NAMES.get(dataset, "digits of scikit-learn"), *means, pixels, shown(None)])
    for folder, some in grouped(lines("photographs.jsonl"), lambda line: line["folder"]).items():
        methods = grouped(some, lambda line: line["method"])
        means = [mean_and_sd([line["metrics"][name] for line in methods["auto"]]) for name in RATES]
        others = {name: [*map(auroc, own)] for name, own in methods.items() if name not in FITS}
        best = max(others, key=lambda name: statistics.mean(others[name]))
        body.append([folder, *means, shown(None), f"{mean_and_sd(others[best])} ({best})"])
    heads = [COLUMNS[name] for name in RATES]
    return markdown_table(["", *heads, "neighbours of pixels", "best of anomalib and PyOD"], *body)


def dataset_of(line: Result) -> str:
    return line["dataset"]


def digits() -> str:
    """Mean over the ten digits, every digit normal in its turn."""
    body = []
    for method, own in grouped(lines("digits.jsonl"), lambda line: line["method"]).items():
        fit = statistics.mean(line["seconds"]["fit"] for line in own)
        values = list(map(auroc, own))
        body.append([f"`{method}`", percent(statistics.mean(values)), percent(min(values)), f"{fit:.0f} s"])
    return markdown_table(["method", "mean AUROC of 10 classes", "worst class", "seconds to fit"], *body)


def changes(name: str) -> str:
    """Each change of a method by itself, on the development classes; the best mean first."""
    header, *body = by_task(grouped(lines(name), lambda line: line["change"]), "changed")
    body.sort(key=lambda line: (line[-1] != shown(None), line[-1]), reverse=True)
    return markdown_table(header, *body)


def references() -> str:
    """AUROC of the same networks with each reference, on the development classes, and how fast they score."""
    own = {task_of(line): line for line in lines("references.jsonl")}
    tasks = sorted(own, key=lambda task: (task[0] == "cifar10", task))
    body = []
    for name in next(iter(own.values()))["auroc"] if own else ():
        values = [own[task]["auroc"][name] for task in tasks]
        speed = statistics.median(own[task]["images_per_second"][name] for task in tasks)
        body.append([f"`{name}`", *map(percent, values), percent(statistics.mean(values)), f"{speed:.0f}"])
    return markdown_table(["reference", *(title(*task) for task in tasks), "mean", "images scored a second"], *body)


def accuracy() -> str:
    """Ours on every class, at the budget of a user: AUROC, and the share found at two rates of false alarms. The mean
    of the seeds that have all classes, and the SD of their means."""
    own = [line for line in lines("accuracy.jsonl") if line["method"] in SHOWN and line["dataset"] in DATASET_NAMES]
    body = []
    for (dataset, method, budget), some in sorted(grouped(own, run_of).items()):
        whole = whole_seeds(some)
        if not whole:
            continue
        classes = [percent(statistics.mean(seed[normal]["auroc"] for seed in whole)) for normal in range(CLASSES)]
        means = [mean_and_sd(means_of(whole, name)) for name in RATES]
        body.append(
            [f"{DATASET_NAMES[dataset]}, `{method}`, {budget / 60:g} min", *classes, f"**{means[0]}**", *means[1:]]
        )
    return markdown_table(["", *map(str, range(CLASSES)), "mean", "found at 1 %", "at 5 %"], *body)


def run_of(line: Result) -> tuple[str, str, float]:
    return line["dataset"], line["method"], line["budget"]


def whole_seeds(some: Sequence[Result]) -> list[dict[int, Mapping[str, float]]]:
    """The metrics of each class, for each seed that has them of all ten."""
    seeds = [{line["normal"]: line["metrics"] for line in one} for one in grouped(some, seed_of).values()]
    return [seed for seed in seeds if len(seed) == CLASSES]


def seed_of(line: Result) -> int:
    return line["seed"]


def means_of(seeds: Sequence[Mapping[int, Mapping[str, float]]], name: str) -> list[float]:
    """Of this metric, over the classes of each seed that has it for all of them."""
    values = ([metrics[name] for metrics in seed.values() if name in metrics] for seed in seeds)
    return [statistics.mean(own) for own in values if len(own) == CLASSES]


def rivals() -> str:
    """The mean of the three classes on which all methods ran, at one budget; SD over seeds where there are more."""
    every = [line for line in lines("accuracy.jsonl") if line["method"] != "auto"]
    own = sorted(every, key=lambda line: line["dataset"] == "folder")
    groups = grouped(own, lambda line: (line["dataset"], line["method"]))
    datasets = dict.fromkeys(dataset for dataset, _ in groups)
    methods = dict.fromkeys([*OURS, *(line["method"] for line in every)])
    body = [
        [f"`{method}`", *(mean_of_classes(groups.get((dataset, method), [])) for dataset in datasets)]
        for method in methods
    ]
    return markdown_table(["", *(DATASET_NAMES.get(dataset, "magnetic-tile") for dataset in datasets)], *body)


def mean_of_classes(own: Sequence[Result]) -> str:
    """Of the classes 0, 3 and 6, or of the only one there is, with its SD over the seeds that have them all."""
    seeds = grouped((line for line in own if line["normal"] in COMPARED), lambda line: line["seed"]).values()
    most = max(map(len, seeds), default=0)
    return mean_and_sd([statistics.mean(map(auroc, seed)) for seed in seeds if len(seed) == most])


def few_anomalies() -> str:
    """AUROC on kinds of anomalies that nobody labelled, by how many of another kind were labelled."""

    def cell(own: Sequence[Result]) -> str:
        return mean_and_sd(list(map(auroc, own)))

    return by_amount("few_anomalies.jsonl", "anomalies", "labelled anomalies", str, cell)


def contamination() -> str:
    """AUROC, how many of the hidden anomalies `fit` names, and both with `--exclude-outliers`, by their share."""
    return by_amount("contamination.jsonl", "share", "anomalies hidden", lambda share: f"{100 * share:g} %", hidden)


def false_alarms() -> str:
    """Share of fresh normal images that is flagged, mean over refits and its standard error, beside the promise."""
    body = [
        [
            f"`{line['method']}`, {title(*task_of(line))}",
            line["kind"],
            str(line["refits"]),
            *itertools.chain.from_iterable(
                (f"{percent(promised)}", f"{100 * flagged:.2f} ± {100 * error:.2f}")
                for promised, flagged, error in zip(
                    line["promised"], line["flagged"], line["standard_error"], strict=True
                )
            ),
        ]
        for line in lines("false_alarms.jsonl")
    ]
    return markdown_table(["", "calibration", "refits", "promised", "flagged", "promised", "flagged"], *body)


def promised() -> str:
    """What is found, and falsely flagged, at the thresholds that `fit` sets, with outliers and without."""
    body = []
    for (folder, excluding), own in grouped(
        lines("promised.jsonl"), lambda line: (line["folder"], line["excluding"])
    ).items():
        shares = [mean_and_sd([line[what][place] for line in own]) for place in (0, 1) for what in ("found", "flagged")]
        named = ", ".join(str(line["named"]) for line in own)
        body.append([folder, "`fit --exclude-outliers`" if excluding else "`fit`", named, *shares])
    heads = ["found at a promised 1 %", "false alarms", "found at a promised 5 %", "false alarms"]
    return markdown_table(["", "", "images named", *heads], *body)


def by_amount(
    name: str, key: str, what: str, amount: Callable[[float], str], cell: Callable[[list[Result]], str]
) -> str:
    """A line for each method and task, a column for each amount of something, a cell of the lines of all seeds."""
    own = lines(name)
    cells = grouped(own, lambda line: (line["method"], *task_of(line), line[key]))
    amounts = sorted({line[key] for line in own})
    body = [
        [
            f"`{method}`, {title(*task)}",
            *(cell(cells[place]) if (place := (method, *task, n)) in cells else shown(None) for n in amounts),
        ]
        for method in dict.fromkeys(line["method"] for line in own)
        for task in tasks_of(line for line in own if line["method"] == method)
    ]
    return markdown_table([what, *map(amount, amounts)], *body)


def hidden(own: list[Result]) -> str:
    """The last line of each: without and, where it was measured, with the exclusion of outliers."""
    last = {line.get("excluding") or False: line for line in own}
    plain, excluding = (described(last[excludes]) if excludes in last else None for excludes in (False, True))
    return plain + (f"; excluded, {excluding}" if excluding else "")


def described(line: Result) -> str:
    named = f"{line['named_rightly']} of {line['hidden']}" if line["hidden"] else "none"
    wrongly = line["named"] - line["named_rightly"]
    return f"{percent(auroc(line))}, names {named}" + (f" and {wrongly} others" if wrongly else "")


def patches() -> str:
    """How well heat maps find a pasted patch."""
    body = [
        [f"`{line['method']}`, {title(*task_of(line))}", *map(percent, line["metrics"].values())]
        for line in lines("patches.jsonl")
    ]
    return markdown_table(["", "pixel AUROC", "PRO", "hottest pixel in the patch"], *body)


def photographs() -> str:
    """Folders with `fit`'s own choice, beside the smaller encoder, and other methods on the same one: whole images, and
    where in them."""
    body = []
    own = sorted(lines("photographs.jsonl"), key=lambda one: (one["folder"], one["method"] not in FITS, one["method"]))
    for (folder, method), some in grouped(own, lambda one: (one["folder"], one["method"])).items():
        values = [[one["metrics"][name] for one in some if name in one["metrics"]] for name in COLUMNS]
        body.append([folder, FITS.get(method, method), *map(mean_and_sd, values)])
    return markdown_table(["", "", *COLUMNS.values()], *body)


def local_models() -> str:
    """Models of a location, each by the hottest location of an image."""
    tasks = grouped(lines("local_models.jsonl"), lambda line: line["task"])
    models = dict.fromkeys(name for own in tasks.values() for line in own for name in line["metrics"])
    body = [
        [model, *(mean_and_sd([line["metrics"][model] for line in own]) for own in tasks.values())] for model in models
    ]
    return markdown_table(["", *tasks], *body)


def tiles() -> str:
    """Photographs of surface defects: whole images, and where in them."""
    own = sorted((line for line in lines("accuracy.jsonl") if line["dataset"] == "folder"), key=auroc, reverse=True)
    body = []
    for method, some in grouped(own, lambda line: line["method"]).items():
        metrics = [line["metrics"] for line in some]
        values = [[one[name] for one in metrics if name in one] for name in COLUMNS]
        body.append([f"`{method}`", *map(mean_and_sd, values)])
    return markdown_table(["", *COLUMNS.values()], *body)
