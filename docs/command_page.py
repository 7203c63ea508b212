"""The page of the command line: what `--help` says of every verb."""

import typer
from typer.testing import CliRunner

from normscope.cli import app

WIDTH = 100


def page() -> str:
    verbs = typer.main.get_command(app).commands
    return "\n".join(
        [
            "# Command line",
            "",
            "Every verb takes `--json` (the result on standard output, everything else on standard error) and",
            "`--debug` (tracebacks). Exit codes: 0 done; 2 wrong use or bad input, said in one line; 3 done, but some",
            "files could not be read; 130 interrupted.",
            "",
            *(f"## {verb}\n\n```text\n{help_of(verb)}\n```\n" for verb in verbs),
        ]
    )


def help_of(verb: str) -> str:
    shown = CliRunner().invoke(
        app, [verb, "--help"], prog_name="normscope", terminal_width=WIDTH, max_content_width=WIDTH
    )
    return shown.stdout.strip()
