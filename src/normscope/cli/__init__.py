"""The command line: one module per verb, each thin: parse, call, print. Verbs import torch themselves, when called."""

import sys

import typer

from normscope.cli import bench, demo, doctor, fit, info, methods, score

app = typer.Typer(
    name="normscope",
    help="Learns what normal images look like from normal images alone, then says how surprising a new one is.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (demo.demo, fit.fit, score.score, doctor.doctor, info.info, methods.methods, bench.bench):
    app.command()(verb)


@app.callback(invoke_without_command=True)
def normscope(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        from normscope import __version__

        print(__version__)
        raise typer.Exit


def main() -> None:
    sys.exit(app())
