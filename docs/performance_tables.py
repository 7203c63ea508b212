"""The tables of docs/performance.md; run as a script, this draws its picture, docs/performance.png."""

import statistics
from collections.abc import Sequence

from lines import ROOT, grouped, lines

from normscope.tables.layout import markdown_table

MB = 2**20
WAYS = {
    "plain": "DataLoader and Pillow, the encoder alone",
    "eager": "`score --engine eager`",
    "onnx": "`score --engine onnx`",
    "openvino": "`score --engine openvino`",
}


def of(what: str, name: str = "speed.jsonl") -> list[dict]:
    return [line for line in lines(name) if line["what"] == what]


def between(values: Sequence[float], digits: int = 2) -> str:
    """Median, and the range where there are several."""
    middle = f"{statistics.median(values):.{digits}f}"
    return f"{middle} ({min(values):.{digits}f}–{max(values):.{digits}f})" if len(values) > 1 else middle


def scoring() -> str:
    """Processor milliseconds an image from files, and how many times as fast as the plain loop and as PyTorch."""
    rounds, body = of("scoring"), []
    for way, name in WAYS.items():
        own = [line for line in rounds if way in line["seconds"]]
        if not own:
            continue
        taken = [1e3 * line["seconds"][way]["processor"] / line["images"] for line in own]
        beside = [line["seconds"]["plain"]["processor"] / line["seconds"][way]["processor"] for line in own]
        alone = [line["decoded"]["seconds"] for line in own if way in line["decoded"]["seconds"]]
        network = [one["eager"]["processor"] / one[way]["processor"] for one in alone]
        body.append([name, str(len(own)), between(taken, 0), between(beside), between(network) if network else "–"])
    header = ["", "rounds", "ms an image", "times as fast as the plain loop", "decoded images: times PyTorch"]
    return markdown_table(header, *body)


def training() -> str:
    body = []
    for side, rounds in grouped(of("training"), lambda line: line["side"]).items():
        seconds = [{name: one["processor"] for name, one in line["seconds"].items()} for line in rounds]
        views = [line["images"] * 4 * line["steps"] / one["ours"] for line, one in zip(rounds, seconds, strict=True)]
        rate = [line["flops"] * line["steps"] / one["ours"] / 1e9 for line, one in zip(rounds, seconds, strict=True)]
        body.append(
            [
                str(side),
                str(len(rounds)),
                between(views, 0),
                between([one["plain"] / one["ours"] for one in seconds]),
                between(rate, 1),
                between([one["products"] / one["ours"] for one in seconds]),
                between([one["views"] / one["ours"] for one in seconds]),
            ]
        )
    header = [
        "pixels",
        "rounds",
        "views a second",
        "times the plain loop",
        "GFLOP/s",
        "share of bare products",
        "views",
    ]
    return markdown_table(header, *body)


def reduced() -> str:
    body = [
        [
            f"{line['scale']}×",
            str(line["quality"]),
            f"{line['enough']}×",
            f"{100 * line['change']['mean']:.0f} %",
            f"{100 * line['change']['largest']:.0f} %",
            f"{line['processor']['whole'] / line['processor']['reduced']:.1f}",
        ]
        for line in of("reduced")
    ]
    header = ["JPEG", "quality", "decoded at least", "scores move by", "at most", "times as fast to decode"]
    return markdown_table(header, *body)


def rivals() -> str:
    """Processor milliseconds an image."""
    rounds, body = of("rivals"), []
    for name in rounds[0]["seconds"] if rounds else ():
        times = [
            between([1e3 * line["seconds"][name][part] / line["images"] for line in rounds])
            for part in ("fit", "score")
        ]
        body.append([name, str(len(rounds)), *times])
    return markdown_table(["", "rounds", "fit, ms an image", "score, ms an image"], *body)


def files() -> str:
    body = []
    for verb in ("score", "doctor"):
        own = {line["files"]: line for line in of(verb, "memory.jsonl")}
        least = min(own) if own else 0
        for count, line in own.items():
            growth = line["peak"] / own[least]["peak"] - 1
            more = (line["processor"] - own[least]["processor"]) / (count - least) if count > least else None
            body.append(
                [
                    f"`{verb}`",
                    f"{count:,}",
                    f"{line['peak'] / MB:.0f}",
                    f"{100 * growth:+.0f} %",
                    f"{line['processor']:.1f}",
                    "–" if more is None else f"{1e3 * more:.2f}",
                ]
            )
    header = ["", "files", "peak MB", "more than the fewest", "processor s", "ms for each further file"]
    return markdown_table(header, *body)


def infonce() -> str:
    body = [
        [f"{line['batch']:,}", "with gradient" if line["backward"] else "value alone", f"{line['peak'] / MB:.0f}"]
        for line in of("infonce", "memory.jsonl")
    ]
    return markdown_table(["batch", "", "MB"], *body)


def draw() -> None:
    import matplotlib.pyplot as plt

    figure, (memory, time) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for verb in ("score", "doctor"):
        own = [*{line["files"]: line for line in of(verb, "memory.jsonl")}.values()]  # the latest of each
        counts = [line["files"] for line in own]
        memory.semilogx(counts, [line["peak"] / MB for line in own], "o-", label=verb)
        time.loglog(counts, [line["processor"] for line in own], "o-", label=verb)
    memory.set(xlabel="files", ylabel="peak memory, MB", ylim=(0, 1.1 * memory.get_ylim()[1]))
    time.set(xlabel="files", ylabel="processor seconds")
    memory.legend()
    figure.savefig(ROOT / "docs" / "performance.png", dpi=120)


if __name__ == "__main__":
    draw()
