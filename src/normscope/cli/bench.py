"""`normscope bench`: one class normal, all others anomalies, for every method, class and seed asked for."""

from pathlib import Path
from typing import Annotated

import typer

from normscope.cli.output import (
    SOME_UNREADABLE,
    Debug,
    Json,
    check_writable,
    one_line_errors,
    plural,
    print_json,
    say,
)
from normscope.errors import SettingError


def bench(
    dataset: Annotated[str, typer.Argument(help="digits, mnist, fashion-mnist or cifar10.")],
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")],
    out: Annotated[Path, typer.Option(help="File to which one JSON line is appended for each finished cell.")],
    classes: Annotated[str, typer.Option(help="all, or classes separated by commas, each normal in its turn.")] = "all",
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 on.", min=1)] = 1,
    budget: Annotated[str, typer.Option(help="Time to train each cell.")] = "2m",
    set_: Annotated[list[str], typer.Option("--set", help="A setting of every method named, key=value.")] = [],  # noqa: B006
    data_root: Annotated[Path | None, typer.Option(envvar="NORMSCOPE_DATA", help="Where the data sets lie.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; the processor's threads are shared among them.", min=1)] = 1,
    threads: Annotated[int | None, typer.Option(help="Threads of each process.", min=1)] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure methods one-versus-rest; cells that the file already has are skipped."""
    with one_line_errors(debug):
        check_writable(out)
        from normscope.datasets import load
        from normscope.evaluation.grid import missing, run_all, threads_for
        from normscope.evaluation.protocol import Cell
        from normscope.methods import settings_of
        from normscope.settings import parse, to_json
        from normscope.training.budget import seconds

        count = len(load(dataset, data_root).class_names)
        cells = [
            Cell(dataset, method, normal, seed, seconds(budget), to_json(parse(settings_of(method), set_)))
            for method in names(methods)
            for seed in range(seeds)
            for normal in chosen(classes, count)
        ]
        todo = missing(cells, out)
        say(f"{plural(len(cells), 'cell')}, {len(cells) - len(todo)} already in {out}")
        failed = 0
        for row in run_all(cells, out, data_root, jobs, threads or threads_for(jobs)):
            failed += row["error"] is not None
            if json:
                print_json(row)
            else:
                found = row["error"] or f"AUROC {row['metrics']['auroc']:.4f}"  # type: ignore[index,call-overload]
                print(f"{row['dataset']} {row['method']} class {row['normal']} seed {row['seed']}: {found}", flush=True)
        if failed:
            say(f"{plural(failed, 'cell')} failed; the same command tries them again")
            raise typer.Exit(SOME_UNREADABLE)


def names(methods: str) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys(name.strip() for name in methods.split(",")))


def chosen(classes: str, count: int) -> list[int]:
    if classes == "all":
        return list(range(count))
    try:
        numbers = [int(text) for text in classes.split(",")]
    except ValueError:
        raise SettingError(f"classes is {classes!r}; give all, or numbers such as 0,1") from None
    if bad := [number for number in numbers if not 0 <= number < count]:
        raise SettingError(f"no class {bad[0]}; there are classes 0 to {count - 1}")
    return list(dict.fromkeys(numbers))
