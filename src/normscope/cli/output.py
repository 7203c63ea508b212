"""What every verb shares: results on standard output, everything else on standard error, one line for an error."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from normscope.errors import NormscopeError

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

WRONG_USE, SOME_UNREADABLE, INTERRUPTED = 2, 3, 130


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """What the user can put right is one red line and exit code 2; Ctrl-C is exit code 130."""
    try:
        yield
    except (NormscopeError, OSError, ImportError) as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone, e.g. `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        if debug:
            raise
        fail(str(error))
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(INTERRUPTED) from None


def fail(message: str) -> None:
    typer.secho("error: " + " ".join(message.split()), fg="red", err=True)
    raise typer.Exit(WRONG_USE)


def say(message: str) -> None:
    """For people: on standard error, so that standard output holds the result alone."""
    typer.echo(message, err=True)


def print_json(result: object) -> None:
    typer.echo(json.dumps(result, ensure_ascii=False, allow_nan=False))
