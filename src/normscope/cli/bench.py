"""`normscope bench`: one class normal, all others anomalies, for every method, class and seed asked for."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from normscope.cli.ending import SOME_UNREADABLE, one_line_errors
from normscope.cli.opening import import_all
from normscope.cli.options import DataRoot, Debug, Json
from normscope.cli.output import plural, print_json, say
from normscope.cli.progress import bars
from normscope.cli.targets import check_writable
from normscope.errors import SettingError
from normscope.training.interrupt import deferred

if TYPE_CHECKING:
    from normscope.benchmark.grid import Runner
    from normscope.benchmark.results import Result
    from normscope.settings import JSON

Place = Literal["local", "ray"]


def bench(
    dataset: Annotated[str, typer.Argument(help="One of `normscope datasets`.")],
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")],
    out: Annotated[Path, typer.Option(help="File to which one JSON line is appended for each finished cell.")],
    classes: Annotated[str, typer.Option(help="all, or numbers or names, each normal in its turn.")] = "all",
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 on.", min=1)] = 1,
    budget: Annotated[str, typer.Option(help="Time to train each cell.")] = "2m",
    epochs: Annotated[int | None, typer.Option(help="At most so many epochs; 0 trains nothing.", min=0)] = None,
    every: Annotated[
        int | None, typer.Option(help="Keep the curve of AUROC and losses, a point after so many epochs.", min=1)
    ] = None,
    test_images: Annotated[
        int | None, typer.Option(help="Score only so many test images, drawn at random and the same for all.", min=2)
    ] = None,
    set_: Annotated[list[str], typer.Option("--set", help="A setting of every method named, key=value.")] = [],  # noqa: B006
    data_root: DataRoot = None,
    jobs: Annotated[int, typer.Option(help="Processes; the processor's threads are shared among them.", min=1)] = 1,
    threads: Annotated[int | None, typer.Option(help="Threads of each process.", min=1)] = None,
    on: Annotated[Place, typer.Option(help="Where cells run: local, or ray, as tasks of a Ray cluster.")] = "local",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure methods one-versus-rest; cells that the file already has are skipped.

    Commands that write to one file at the same time share its cells.
    """
    with one_line_errors(debug):
        check_writable(out)
        import_all()
        from normscope.benchmark.cell import Cell
        from normscope.benchmark.grid import missing, run_all, threads_for
        from normscope.datasets import classes as classes_of
        from normscope.methods import settings_of
        from normscope.settings import parse, to_json
        from normscope.training.budget import seconds

        normals = chosen(classes, list(classes_of(dataset, data_root)))
        settings = {method: to_json(parse(settings_of(method), set_)) for method in names(methods)}
        cells = [
            Cell(dataset, method, normal, seed, seconds(budget), settings[method], epochs, every, test_images)
            for method in settings
            for seed in range(seeds)
            for normal in normals
        ]
        with crew_on(on, jobs, data_root, threads or (1 if on == "ray" else threads_for(jobs))) as crew:
            todo = missing(cells, out, crew[0].checksum(dataset))
            say(f"{plural(len(cells), 'cell')}, {len(cells) - len(todo.cells)} already in {out}")
            errors = []
            with bars() as observer, deferred() as stop, closing(run_all(todo, crew, stop)) as results:
                observer.parts("cells", 0, len(todo.cells))
                for result in results:
                    errors.append(show(result, json))
                    observer.parts("cells", len(errors), len(todo.cells))
        if len(errors) < len(todo.cells):
            say(f"{plural(len(todo.cells) - len(errors), 'cell')} left to another process that writes to {out}")
        if failed := sum(error is not None for error in errors):
            say(f"{plural(failed, 'cell')} failed; the same command tries again (with fewer --jobs if memory ran out)")
            raise typer.Exit(SOME_UNREADABLE)


def crew_on(on: Place, jobs: int, root: Path | None, threads: int) -> "AbstractContextManager[Sequence[Runner]]":
    """The processes of this machine, or as many tasks as a cluster can run at a time."""
    if on == "ray":
        from normscope.cluster.ray_grid import workers as tasks

        return tasks(root, threads)
    from normscope.benchmark.worker import workers

    return workers(jobs, root, threads)


def show(result: "Result", json: bool) -> "JSON":
    """Prints a result and returns its error."""
    if json:
        print_json(result)
    else:
        metrics = result["metrics"]
        outcome = f"AUROC {metrics['auroc']:.4f}" if isinstance(metrics, dict) else result["error"]
        print(
            f"{result['dataset']} {result['method']} class {result['normal']} seed {result['seed']}: {outcome}",
            flush=True,
        )
    return result["error"]


def names(methods: str) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys(name.strip() for name in methods.split(",")))


def chosen(classes: str, class_names: Sequence[str]) -> list[int]:
    """Each once, in order; a class is given by its number or by its name."""
    if classes == "all":
        return list(range(len(class_names)))
    return list(dict.fromkeys(number(word.strip(), class_names) for word in classes.split(",")))


def number(word: str, class_names: Sequence[str]) -> int:
    if word.isdecimal() and int(word) < len(class_names):
        return int(word)
    if word in class_names:
        return class_names.index(word)
    raise SettingError(f"no class {word!r}; give all, numbers from 0 to {len(class_names) - 1}, or names")
