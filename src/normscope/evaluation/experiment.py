"""What the scripts in experiments/ share: their options, and cells run once and kept as JSON lines."""

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from normscope.evaluation import results
from normscope.evaluation.grid import Row, run_all
from normscope.evaluation.protocol import Cell, cell_of, commit
from normscope.methods import settings_of
from normscope.settings import JSON, build, to_json
from normscope.training.budget import seconds

QUICK_TASKS = ("digits:0",)


@dataclass(frozen=True)
class Options:
    """How an experiment is run. `quick` measures nothing worth reporting: it shows in seconds that everything works."""

    quick: bool
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
        """A method with its defaults but for `settings`, on every task and seed."""
        whole = to_json(build(settings_of(method), settings))
        return [
            Cell(dataset, method, normal, seed, self.budget, whole, self.epochs, every, test_images)
            for dataset, normal in self.tasks
            for seed in range(self.seeds)
        ]

    def rows(self, cells: Sequence[Cell]) -> list[Row]:
        """Their rows: those missing from the file are measured first. A cell that failed stays out, and is named."""
        for row in run_all(cells, self.out, self.data_root, self.jobs, self.threads):
            found = row["error"] or f"AUROC {row['metrics']['auroc']:.4f}"  # type: ignore[index,call-overload]
            print(f"{row['dataset']} {row['normal']} {row['method']}: {found}", file=sys.stderr, flush=True)
        done = {cell_of(row): row for row in results.read(self.out) if row["error"] is None}
        return [done[cell.key()] for cell in cells if cell.key() in done]

    def lines(
        self, names: Sequence[str], keys: Iterable[tuple[JSON, ...]], measure: Callable[..., Mapping[str, JSON]]
    ) -> dict[tuple[JSON, ...], Row]:
        """For what is no cell: the line of each key, made of the key's parts by their `names` and of what `measure`
        says of them. Lines missing from the file are measured first."""
        found = {tuple(row[name] for name in names): row for row in results.read(self.out)}
        for key in keys:
            if key not in found:
                run = {"budget": self.budget, "threads": self.threads, "commit": commit(), "error": None}
                found[key] = {**dict(zip(names, key, strict=True)), **run, **measure(*key)}
                results.append(self.out, found[key])
        return found


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
        tasks=tuple(task for text in (QUICK_TASKS if given.quick else given.tasks) for task in parse_tasks(text)),
        budget=None if given.quick else seconds(given.budget),
        epochs=4 if given.quick else None,
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
