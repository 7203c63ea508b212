"""The tables of docs/scale.md."""

import statistics
from collections.abc import Sequence

from lines import grouped, lines, newest

from normscope.tables.layout import markdown_table

RAY_CORES = 2  # of the cluster that `benchmarks/scale.py ray` starts
SIZES = {"a million": 10**6, "a billion": 10**9}


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation; one value has none."""
    mean = f"{statistics.mean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean


def training() -> str:
    """Seconds of one process over those of two: by the clock, and by the processor time of the busiest."""
    body = []
    own = newest([line for line in lines("scale.jsonl") if line["what"] == "training"])
    for method, rounds in grouped(own, lambda line: line["method"]).items():
        clock, processor = ([one["one"][kind] / one["two"][kind] for one in rounds] for kind in ("clock", "processor"))
        busy = [1e3 * one["one"]["processor"] for one in rounds]
        body.append([f"`{method}`", str(len(rounds)), f"{statistics.mean(busy):.0f}", spread(processor), spread(clock)])
    return markdown_table(["method", "rounds", "ms a step", "less work for each", "faster by the clock"], *body)


def on_ray() -> str:
    names = {"scoring": "files scored", "cells": "cells of `bench`"}
    body = []
    for what, name in names.items():
        rates = [line["per_second"] for line in newest([one for one in lines("scale.jsonl") if one["what"] == what])]
        if rates:
            both = [spread([one[kind] for one in rates]) for kind in ("local", "ray")]
            body.append([name, str(len(rates)), *both, spread([one["ray"] / one["local"] for one in rates])])
    return markdown_table(["a second", "rounds", "here", "on Ray", "ratio"], *body)


def grid() -> str:
    """Seconds of a grid, those that its workers take to start left out."""
    body = []
    own = newest([line for line in lines("scale.jsonl") if line["what"] == "grid"])
    for cells, rounds in grouped(own, lambda line: line["cells"]).items():
        taken = [line["seconds"]["cells"] for line in rounds]
        each = [1e3 * one / cells for one in taken]
        body.append([str(cells), str(len(rounds)), spread(taken), f"{statistics.mean(each):.0f}"])
    return markdown_table(["cells", "rounds", "seconds", "ms a cell"], *body)


def hours(seconds: float) -> str:
    return f"{seconds / 3600:,.0f}" if seconds > 36_000 else f"{seconds / 3600:.2g}"


def cost() -> str:
    """Hours of one core and of a hundred, at the processor time an image took; on Ray, at the time by the clock."""
    rates = {}
    if photographs := newest([line for line in lines("speed.jsonl") if line["what"] == "scoring"]):
        taken = [line["seconds"]["eager"]["processor"] / line["images"] for line in photographs]
        height, width = photographs[-1]["size"]
        rates[f"photographs, `pretrained` at {height}×{width}, PyTorch"] = statistics.median(taken)
    files = {line["files"]: line["processor"] for line in lines("memory.jsonl") if line["what"] == "score"}
    if len(files) > 1:
        least, most = min(files), max(files)
        rates["files of 16×16 pixels, `pca`"] = (files[most] - files[least]) / (most - least)
    if on_cluster := newest([line for line in lines("scale.jsonl") if line["what"] == "scoring"]):
        taken = [RAY_CORES / line["per_second"]["ray"] for line in on_cluster]
        rates["files of 64×64 pixels, `pca`, on Ray, by the clock"] = statistics.median(taken)
    body = [
        [name, what, hours(n * seconds), hours(n * seconds / 100)]
        for what, seconds in rates.items()
        for name, n in SIZES.items()
    ]
    return markdown_table(["images", "", "core hours", "hours on 100 cores"], *body)
