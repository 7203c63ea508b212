"""The tables of docs/performance.md; run as a script, this draws its picture, docs/performance.png."""

import statistics
from collections.abc import Sequence

from lines import ROOT, grouped, lines, newest

from normscope.tables.layout import markdown_table

MB = 2**20
WAYS = {
    "plain": "DataLoader and Pillow, the encoder alone",
    "plain_fused": "the same, with convolutions as ours",
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


def ratios(rounds: Sequence[dict], above: str, below: str, by: str) -> list[float]:
    return [line["seconds"][above][by] / line["seconds"][below][by] for line in rounds]


def scoring() -> str:
    """Processor milliseconds an image from files, and how many times as fast as the plain loop and as PyTorch."""
    body = []
    for threads, rounds in grouped(newest(of("scoring")), lambda line: line["threads"]).items():
        for way, name in WAYS.items():
            own = [line for line in rounds if way in line["seconds"]]
            if not own:
                continue
            taken = [1e3 * line["seconds"][way]["processor"] / line["images"] for line in own]
            alone = [line["decoded"]["seconds"] for line in own if way in line["decoded"]["seconds"]]
            network = [one.get("plain", one["eager"])["processor"] / one[way]["processor"] for one in alone]
            beside = [between(ratios(own, "plain", way, by)) for by in ("processor", "clock")]
            alone_shown = between(network) if network else "–"
            body.append([name, str(threads), str(len(own)), between(taken, 0), *beside, alone_shown])
    header = ["", "threads", "rounds", "processor ms an image", "times the plain loop", "by the clock"]
    return markdown_table([*header, "decoded images: times PyTorch"], *body)


def cold() -> str:
    """Images a second by the clock."""
    body, rounds = [], newest(of("cold"))
    for part, name in (("decoded", "read and resized"), ("scored", "scored")):
        rates = [
            between([line["images"] / line["seconds"][part][when]["clock"] for line in rounds], 1)
            for when in ("cold", "warm")
            if rounds
        ]
        body += [[name, str(len(rounds)), *rates]] if rounds else []
    return markdown_table(["", "rounds", "images a second, cold", "warm"], *body)


def fit() -> str:
    body = []
    for (images, threads), rounds in grouped(newest(of("fit")), lambda line: (line["images"], line["threads"])).items():
        seconds = [between([line["seconds"][part]["processor"] for line in rounds], 1) for part in ("fit", "encoder")]
        beside = [between(ratios(rounds, "fit", "encoder", by)) for by in ("processor", "clock")]
        body.append([str(images), str(threads), str(len(rounds)), *seconds, *beside])
    header = ["images", "threads", "rounds", "fit, processor s", "encoder, each image once", "times the encoder"]
    return markdown_table([*header, "by the clock"], *body)


def training() -> str:
    body = []
    every = newest(of("training"))
    for (side, threads), rounds in grouped(every, lambda line: (line["side"], line["threads"])).items():
        seconds = [{name: one["processor"] for name, one in line["seconds"].items()} for line in rounds]
        views = [line["images"] * 4 * line["steps"] / one["ours"] for line, one in zip(rounds, seconds, strict=True)]
        rate = [line["flops"] * line["steps"] / one["ours"] / 1e9 for line, one in zip(rounds, seconds, strict=True)]
        convolutions = [line["convolutions"] for line in rounds if "convolutions" in line]
        body.append(
            [
                str(side),
                str(threads),
                str(len(rounds)),
                between(views, 0),
                *(between(ratios(rounds, "plain", "ours", by)) for by in ("processor", "clock")),
                between(rate, 1),
                between(ratios(rounds, "products", "ours", "processor")),
                between(ratios(rounds, "views", "ours", "processor")),
                between(convolutions) if convolutions else "–",
            ]
        )
    header = ["pixels", "threads", "rounds", "views a second", "times the plain loop", "by the clock", "GFLOP/s"]
    return markdown_table([*header, "share of bare products", "views", "convolutions"], *body)


def serving() -> str:
    """Of one image in a request."""
    body = []
    for line in newest(of("serving", "serving.jsonl")):
        lost = line["requests"] - line["statuses"].get("200", 0)
        latency = [f"{1e3 * line[name]:.0f}" for name in ("p50", "p99")]
        rate = f"{line['per_second']:.1f}"
        body.append([f"`{line['method']}`", str(line["clients"]), str(line["requests"]), str(lost), *latency, rate])
    header = ["", "clients", "requests", "refused", "ms, p50", "ms, p99", "images a second"]
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
    """MB by batch: of all pairs at once, and in blocks."""
    body = []
    for batch, own in grouped(newest(of("infonce", "memory.jsonl")), lambda line: line["batch"]).items():
        peaks = {(line.get("how", "whole"), line["backward"]): f"{line['peak'] / MB:.0f}" for line in own}
        ways = [(how, backward) for how in ("whole", "blocks") for backward in (False, True)]
        body.append([f"{batch:,}", *(peaks.get(way, "–") for way in ways)])
    return markdown_table(["batch", "all at once", "with gradient", "in blocks", "with gradient"], *body)


def draw() -> None:
    import matplotlib.pyplot as plt

    figure, (memory, time, serving, pairs) = plt.subplots(1, 4, figsize=(16, 3.2), layout="constrained")
    for verb in ("score", "doctor"):
        own = [*{line["files"]: line for line in of(verb, "memory.jsonl")}.values()]  # the latest of each
        counts = [line["files"] for line in own]
        memory.semilogx(counts, [line["peak"] / MB for line in own], "o-", label=verb)
        time.loglog(counts, [line["processor"] for line in own], "o-", label=verb)
    memory.set(xlabel="files", ylabel="peak memory, MB", ylim=(0, 1.1 * memory.get_ylim()[1]))
    time.set(xlabel="files", ylabel="processor seconds")
    memory.legend()
    for method, own in grouped(newest(of("serving", "serving.jsonl")), lambda line: line["method"]).items():
        serving.loglog([line["clients"] for line in own], [line["per_second"] for line in own], "o-", label=method)
    serving.set(xlabel="clients", ylabel="images a second over HTTP")
    serving.legend()
    largest = [line for line in newest(of("infonce", "memory.jsonl")) if line["backward"]]
    for how, own in grouped(largest, lambda line: line.get("how", "whole")).items():
        pairs.loglog([line["batch"] for line in own], [line["peak"] / MB for line in own], "o-", label=how)
    pairs.set(xlabel="images in a batch", ylabel="InfoNCE with gradient, MB")
    pairs.legend()
    figure.savefig(ROOT / "docs" / "performance.png", dpi=120)


if __name__ == "__main__":
    draw()
