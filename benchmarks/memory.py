"""Peak memory and time of `score` and `doctor` against the number of files, and of InfoNCE against the batch.

`python -m benchmarks.memory files` and `python -m benchmarks.memory infonce`; lines go to results/memory.jsonl. Every
figure is of a process of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.line import append
from normscope import Detector

SIDE = 16  # pixels of an image
PEAK = """
import resource


def peak():  # of this process alone: ru_maxrss begins with that of the process which started it
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def processor():
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime
"""
MEASURE = """
import contextlib, io, sys
from normscope.cli import main
sys.argv = ["normscope", *sys.argv[1:]]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
print("measured", peak(), processor())
"""
INFONCE = """
import sys, torch
from functools import partial
from normscope.objective import blocks
from normscope.objective.critics import dot
from normscope.objective.information import infonce
from normscope.objective.trade_off import TradeOff
n, backward, how = int(sys.argv[1]), sys.argv[2] == "yes", sys.argv[3]
torch.set_num_threads(1)


def evaluate(n):
    z = torch.randn(2 * n, 64, requires_grad=True)  # of two views
    pairs = blocks.contrasted(z, z, partial(dot, scale=8.0), infonce)
    value = TradeOff(infonce, 0.0)([pairs], torch.zeros(()), 0.0)[0]
    if backward:
        value.backward()


usual, blocks.MOST_PAIRS = blocks.MOST_PAIRS, 1
evaluate(4)  # imports what there is to import
blocks.MOST_PAIRS = usual if how == "blocks" else 2**62
before = peak()
evaluate(n)
print("measured", peak() - before, processor())
"""


def measured(code: str, *arguments: str) -> dict[str, float]:
    """Peak memory in bytes and processor seconds, as the process printed them last."""
    done = subprocess.run([sys.executable, "-c", PEAK + code, *arguments], check=True, capture_output=True, text=True)
    _, memory, seconds = done.stdout.splitlines()[-1].split()
    return {"peak": int(memory), "processor": float(seconds)}


def written(folder: Path, count: int, begin: int) -> None:
    """Files from number `begin` on, a thousand in a folder."""
    rng = np.random.default_rng(begin)
    for number in range(begin, count):
        place = folder / f"{number // 1000:04}"
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (SIDE, SIDE), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{number:06}.bmp")


def files(out: Path, counts: list[int], verbs: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place, there = Path(scratch), 0
        rng = np.random.default_rng(0)
        Detector("pca", false_alarm_rate=0.1).fit(rng.integers(0, 256, (64, SIDE, SIDE), dtype=np.uint8)).save(
            place / "model"
        )
        images = place / "images"
        for count in counts:
            written(images, count, there)
            there = count
            commands = {
                "score": ("score", str(place / "model"), str(images), "--csv", str(place / "rows.csv")),
                "doctor": ("doctor", str(images), "--json"),
            }
            for verb in verbs:
                append(out, {"what": verb, "files": count, "side": SIDE, **measured(MEASURE, *commands[verb])})


def information(out: Path, batches: list[int]) -> None:
    for batch in batches:
        for how in ("whole", "blocks"):
            for backward in ("no", "yes"):
                line = {"what": "infonce", "batch": batch, "how": how, "backward": backward == "yes"}
                append(out, {**line, **measured(INFONCE, str(batch), backward, how)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["files", "infonce"])
    parser.add_argument("--out", type=Path, default=Path("results/memory.jsonl"))
    parser.add_argument("--counts", type=json.loads, default=[1000, 10_000, 100_000])
    parser.add_argument("--verbs", default="score,doctor")
    parser.add_argument("--batches", type=json.loads, default=[1024, 2048, 4096])
    given = parser.parse_args()
    if given.what == "files":
        files(given.out, given.counts, given.verbs.split(","))
    else:
        information(given.out, given.batches)


if __name__ == "__main__":
    main()
