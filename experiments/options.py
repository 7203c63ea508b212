"""What the experiments share: command-line options, and measurements that are made once and kept as JSON lines."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from normscope.benchmark import results
from normscope.benchmark.cell import Cell
from normscope.benchmark.commit import commit
from normscope.benchmark.grid import missing, run_all
from normscope.benchmark.measurement import cell_of
from normscope.benchmark.results import Result
from normscope.benchmark.worker import workers
from normscope.methods import settings_of
from normscope.settings import JSON, build, to_json
from normscope.training.budget import seconds

QUICK_TASKS = ("digits:0",)
QUICK_TEST_IMAGES = 100


@dataclass(frozen=True)
class Options:
    """How an experiment is run. `quick` measures nothing worth reporting: it shows in seconds that everything works.

    `draw` measures nothing at all: the picture shows what has been measured so far.
    """

    quick: bool
    draw: bool
    tasks: tuple[tuple[str, int], ...]  # data set and normal class
    budget: float | None
    epochs: int | None
    seeds: int
    out: Path
    picture: Path
    data_root: Path | None
    jobs: int
    threads: int

    def cells(
        self,
        method: str,
        settings: Mapping[str, object],
        every: int | None = None,
        test_images: int | None = None,
    ) -> list[Cell]:
        """A method with its default settings other than `settings`, on every task and seed."""
        whole = to_json(build(settings_of(method), settings))
        scored = QUICK_TEST_IMAGES if self.quick else test_images
        return [
            Cell(dataset, method, normal, seed, self.budget, whole, self.epochs, every, scored)
            for dataset, normal in self.tasks
            for seed in range(self.seeds)
        ]

    def results(self, cells: Sequence[Cell]) -> list[Result]:
        """Of the cells that did not fail; those missing from the file are run first."""
        with workers(self.jobs, self.data_root, self.threads) as crew:
            for result in run_all(missing([] if self.draw else cells, self.out), crew):
                outcome = result["error"] or f"AUROC {result['metrics']['auroc']:.4f}"
                print(f"{result['dataset']} {result['normal']} {result['method']}: {outcome}", file=sys.stderr)
        done = {cell_of(result).key(): result for result in results.read(self.out) if result["error"] is None}
        return [done[cell.key()] for cell in cells if cell.key() in done]

    def lines(
        self, names: Sequence[str], keys: Iterable[tuple[JSON, ...]], measure: Callable[..., Mapping[str, JSON]]
    ) -> dict[tuple[JSON, ...], Result]:
        """For experiments that are no cells of the benchmark: one line in the file for each key.

        A line consists of the key, its parts under `names`, and of what `measure(*key)` returns. Only keys that the
        file lacks are measured; a part that older lines lack is None.
        """
        lines = {tuple(line.get(name) for name in names): line for line in results.read(self.out)}
        for key in () if self.draw else keys:
            if key not in lines:
                run = {"budget": self.budget, "threads": self.threads, "commit": commit(), "error": None}
                lines[key] = {**dict(zip(names, key, strict=True)), **run, **measure(*key)}
                results.append(self.out, lines[key])
        return lines


def read_options(
    description: str | None,
    out: str,
    picture: str,
    tasks: Sequence[str] = ("fashion-mnist:0,8", "cifar10:0,1"),
    budget: str = "1m",
    arguments: Sequence[str] | None = None,
) -> Options:
    """From the command line; the defaults are those of the figures in docs/results.md."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="digits and a few steps: shows that everything works")
    parser.add_argument("--draw", action="store_true", help="only draw what has been measured")
    parser.add_argument("--tasks", nargs="+", default=tasks, metavar="DATASET:CLASSES")
    parser.add_argument("--budget", default=budget, help="time to train each cell")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from 0 on")
    parser.add_argument(
        "--out", type=Path, default=Path(out), help="JSON lines; cells that are there are not run again"
    )
    parser.add_argument("--picture", type=Path, default=Path(picture))
    parser.add_argument("--data-root", type=Path, help="else NORMSCOPE_DATA")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    given = parser.parse_args(arguments)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    return Options(
        quick=given.quick,
        draw=given.draw,
        tasks=tuple(task for text in (QUICK_TASKS if given.quick else given.tasks) for task in parse_tasks(text)),
        budget=None if given.quick else seconds(given.budget),
        epochs=2 if given.quick else None,
        seeds=given.seeds,
        out=given.out,
        picture=given.picture,
        data_root=given.data_root,
        jobs=given.jobs,
        threads=given.threads,
    )


def parse_tasks(text: str) -> list[tuple[str, int]]:
    """`cifar10:0,1` → the data set with each class."""
    dataset, _, classes = text.partition(":")
    return [(dataset, int(word)) for word in classes.split(",")]
