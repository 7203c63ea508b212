"""What several processes and a Ray cluster gain, measured in turns in one run; appends lines to results/scale.jsonl.

`python benchmarks/scale.py training` compares steps of one process with those of two, each with one thread;
`python benchmarks/scale.py grid` has the time of a grid against its cells;
`python benchmarks/scale.py ray` scores the same files, and runs the same cells, here and on a Ray cluster of one node.
Besides the clock there is processor time, that of the busiest process: on a machine that others use too, it alone says
how much work a step is; it leaves out what a process waits for.
"""

import argparse
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from normscope import Detector, __version__
from normscope.benchmark import results
from normscope.benchmark.cell import Cell
from normscope.benchmark.commit import commit
from normscope.benchmark.grid import missing, run_all
from normscope.benchmark.worker import workers as local_workers
from normscope.images.folder import scan
from normscope.methods import find, settings_of
from normscope.model import load
from normscope.settings import build, to_json
from normscope.training import loop
from normscope.training.distributed import process_group
from normscope.training.observer import Observer

METHODS = {
    "surprisal": {},
    "base": {},
    "extension": {},
    "autoencoder": {"batch_size": 32},
    "ganomaly": {"batch_size": 32},
}
WARM_UP = 2


class Clock(Observer):
    """Seconds of the clock and of the processor at each step."""

    def __init__(self) -> None:
        self.clock: list[float] = []
        self.processor: list[float] = []

    def step(self, progress) -> None:
        self.clock.append(time.perf_counter())
        self.processor.append(time.process_time())


def pixels(n: int, side: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, 3, side, side), dtype=np.uint8)


def train(name: str, settings: dict, steps: int, side: int) -> dict[str, float]:
    """Seconds a step, after a few that warm up."""
    torch.manual_seed(0)
    method, clock = find(name)(build(settings_of(name), settings), (3, side, side)), Clock()
    batch = method.phases()[0].batch_size
    loop.train(method, pixels(batch * (steps + WARM_UP), side), loop.Plan(epochs=1), clock)
    count = len(clock.clock) - WARM_UP
    return {
        name: (values[-1] - values[WARM_UP - 1]) / count
        for name, values in (("clock", clock.clock), ("processor", clock.processor))
    }


def together(count: int, run: Callable[[], dict[str, float]]) -> dict[str, float]:
    """What so many forked processes measured: the most of them."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(count)}
    read, write = os.pipe()
    children = []
    for number in range(count):
        os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number)}
        if (child := os.fork()) == 0:
            with process_group():
                os.write(write, json.dumps(run()).encode() + b"\n")
            os._exit(0)
        children.append(child)
    assert not any(os.waitpid(child, 0)[1] for child in children)
    os.close(write)
    with os.fdopen(read) as answers:
        every = [json.loads(line) for line in answers]
    return {key: max(one[key] for one in every) for key in every[0]}


def training(out: Path, names: list[str], rounds: int, steps: int, side: int) -> None:
    for name in names:
        settings = METHODS[name]
        for number in range(rounds):
            one, two = (together(count, partial(train, name, settings, steps, side)) for count in (1, 2))
            append(
                out,
                {
                    "what": "training",
                    "method": name,
                    "settings": to_json(build(settings_of(name), settings)),
                    "side": side,
                    "steps": steps,
                    "round": number,
                    "one": one,
                    "two": two,
                },
            )


def grid(count: int) -> list[Cell]:
    """Cells of `pca` on digits: ten classes, and as many seeds as that takes."""
    settings = to_json(settings_of("pca")())
    return [Cell("digits", "pca", number % 10, number // 10, None, settings) for number in range(count)]


def growth(out: Path, rounds: int, counts: list[int]) -> None:
    """Seconds of a grid against its cells, with two workers of one thread; the time that they start in is apart."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for count in counts:
                began = time.perf_counter()
                with local_workers(2, None, 1) as runners:
                    for runner in runners:  # each starts a process
                        runner.checksum("digits")
                    between = time.perf_counter()
                    rows = [*run_all(missing(grid(count), Path(folder) / f"{number}-{count}"), runners)]
                    ended = time.perf_counter()
                assert [row["error"] for row in rows] == [None] * count
                seconds = {"start": between - began, "cells": ended - between}
                append(out, {"what": "grid", "method": "pca", "cells": count, "round": number, "seconds": seconds})


def on_ray(out: Path, rounds: int, files: int) -> None:
    """The cluster has one node with two processors; a first round, in which processes start, is not counted."""
    import ray

    from normscope.cluster.ray_grid import workers
    from normscope.cluster.ray_score import Job, score_files

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model, wanted = fitted(folder), written(folder / "images", files)
        for number in range(rounds + 1):
            began = time.perf_counter()
            local = [*load(model).rows([one.path for one in wanted])]
            between = time.perf_counter()
            tallies = [*score_files(Job(model, None, folder / str(number)), wanted, in_a_part=64)]
            ended = time.perf_counter()
            assert sum(one.images for one in tallies) == len(local) == files
            if number:
                rates = {"local": files / (between - began), "ray": files / (ended - between)}
                append(
                    out, {"what": "scoring", "method": "pca", "files": files, "round": number - 1, "per_second": rates}
                )
        cells = grid(10)
        for number in range(rounds + 1):
            seconds = {}
            for kind, crew in (("local", local_workers(2, None, 1)), ("ray", workers(None, 1))):
                with crew as runners:
                    for runner in runners:  # each starts a process
                        runner.checksum("digits")
                    began = time.perf_counter()
                    assert all(
                        row["error"] is None for row in run_all(missing(cells, folder / f"{kind}{number}"), runners)
                    )
                    seconds[kind] = time.perf_counter() - began
            if number:
                rates = {kind: len(cells) / taken for kind, taken in seconds.items()}
                append(out, {"what": "cells", "method": "pca", "cells": 10, "round": number - 1, "per_second": rates})
    ray.shutdown()


def fitted(folder: Path) -> Path:
    images = np.random.default_rng(0).integers(0, 256, (64, 64, 64), dtype=np.uint8)
    Detector("pca", false_alarm_rate=0.1).fit(images).save(folder / "model")
    return folder / "model"


def written(folder: Path, count: int) -> list:
    folder.mkdir()
    for number, image in enumerate(np.random.default_rng(1).integers(0, 256, (count, 64, 64), dtype=np.uint8)):
        Image.fromarray(image).save(folder / f"{number:06}.png")
    return [*scan(folder)]


def append(out: Path, line: dict) -> None:
    print(json.dumps(line), flush=True)
    where = {"version": __version__, "commit": commit(), "torch": torch.__version__, "cores": os.cpu_count()}
    results.append(out, {**line, **where, "load": round(os.getloadavg()[0], 1), "error": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["training", "grid", "ray"])
    parser.add_argument("--out", type=Path, default=Path("results/scale.jsonl"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--cells", type=json.loads, default=[10, 20, 40, 80])
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "training":
        training(given.out, given.methods.split(","), given.rounds, given.steps, given.side)
    elif given.what == "grid":
        growth(given.out, given.rounds, given.cells)
    else:
        on_ray(given.out, given.rounds, given.files)


if __name__ == "__main__":
    main()
