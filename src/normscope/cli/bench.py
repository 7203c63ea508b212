"""`normscope bench`: one class normal, all others anomalies, for every method, class and seed asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from normscope.cli.output import (
    SOME_UNREADABLE,
    Debug,
    Json,
    check_writable,
    import_all,
    one_line_errors,
    plural,
    print_json,
    say,
)
from normscope.errors import SettingError


def bench(
    dataset: Annotated[str, typer.Argument(help="One of `normscope datasets`.")],
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")],
    out: Annotated[Path, typer.Option(help="File to which one JSON line is appended for each finished cell.")],
    classes: Annotated[str, typer.Option(help="all, or numbers or names, each normal in its turn.")] = "all",
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 on.", min=1)] = 1,
    budget: Annotated[str, typer.Option(help="Time to train each cell.")] = "2m",
    epochs: Annotated[int | None, typer.Option(help="At most so many epochs.", min=1)] = None,
    every: Annotated[
        int | None, typer.Option(help="Keep the curve of AUROC and losses, a point after so many epochs.", min=1)
    ] = None,
    test_images: Annotated[
        int | None, typer.Option(help="Score only so many test images, drawn at random and the same for all.", min=2)
    ] = None,
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
        import_all()
        from normscope.datasets import load
        from normscope.evaluation.grid import missing, run_all, threads_for
        from normscope.evaluation.protocol import Cell
        from normscope.methods import settings_of
        from normscope.settings import parse, to_json
        from normscope.training.budget import seconds

        data = load(dataset, data_root)
        cells = [
            Cell(
                dataset,
                method,
                normal,
                seed,
                seconds(budget),
                to_json(parse(settings_of(method), set_)),
                epochs,
                every,
                test_images,
            )
            for method in names(methods)
            for seed in range(seeds)
            for normal in chosen(classes, data.class_names)
        ]
        todo = missing(cells, out, data.sha256)
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
