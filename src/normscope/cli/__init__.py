"""The command line: one module per verb, each thin: parse, call, print. Verbs import torch themselves, when called."""

import os
import sys
from collections.abc import Sequence
from typing import cast

import typer

from normscope.cli import (
    bench,
    compare,
    datasets,
    demo,
    doctor,
    evaluate,
    export,
    fit,
    info,
    methods,
    recalibrate,
    score,
    serve,
    table,
    watch,
)
from normscope.cli.ending import WRONG_USE
from normscope.cli.output import complain, say

app = typer.Typer(
    name="normscope",
    help="Learns what normal images look like from normal images alone, then says how surprising a new one is.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (
    demo.demo,
    fit.fit,
    score.score,
    serve.serve,
    evaluate.evaluate,
    recalibrate.recalibrate,
    watch.watch,
    export.export,
    doctor.doctor,
    info.info,
    methods.methods,
    datasets.datasets,
    bench.bench,
    table.table,
    compare.compare,
):
    app.command()(verb)

# What the parser raises for a wrong argument; where typer keeps it has changed with its versions.
UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])


@app.callback(invoke_without_command=True)
def normscope(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and leave."),
) -> None:
    if version:
        from normscope import __version__

        print(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        say(context.get_help())
        raise typer.Exit(WRONG_USE)


SPINS = "30000"
"""After which a thread of OpenMP that waits for others sleeps; read when torch is imported. By default it is ten times
as many: where other programs have the cores, threads then spend most of their time waiting for each other."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one verb and leaves with its exit code; wrong arguments are one line, like every other error."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal cannot show is escaped, not an error
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(app(arguments, prog_name="normscope", standalone_mode=False))
    except UsageError as error:
        command = error.ctx.command_path if error.ctx else "normscope"
        message = error.format_message().strip().rstrip(".")
        message += "" if message.endswith("?") else ";"  # it may ask `Did you mean 'score'?`
        complain(f"{message[:1].lower()}{message[1:]} `{command} --help` lists what there is")
        sys.exit(WRONG_USE)
