"""What every verb shares: results on standard output, everything else on standard error, one line for an error."""

import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from normscope.errors import NormscopeError
from normscope.files import is_stream
from normscope.training.interrupt import Terminated, deferred, interrupt

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

READER_GONE, WRONG_USE, SOME_UNREADABLE, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """An error is one red line and exit code 2; Ctrl-C is exit code 130, SIGTERM 143."""
    in_main = threading.current_thread() is threading.main_thread()  # elsewhere Python sets no handlers
    before = signal.signal(signal.SIGTERM, interrupt) if in_main else None
    try:
        yield
        sys.stdout.flush()  # a reader who has gone is noticed here, not when Python ends
    except typer.Exit:
        raise
    except BrokenPipeError:  # the reader of our output has gone, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(READER_GONE) from None
    except KeyboardInterrupt as error:
        say("interrupted")
        raise typer.Exit(TERMINATED if isinstance(error, Terminated) else INTERRUPTED) from None
    except Exception as error:
        if debug:
            traceback.print_exc()
        complain(explanation(error))
        raise typer.Exit(WRONG_USE) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def rank_0_alone_speaks(debug: bool) -> Iterator[None]:
    """Of several processes that torchrun started the others are silent; with `debug`, on standard output alone."""
    if os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("RANK", "0") == "0":
        yield
        return
    with Path(os.devnull).open("w") as nowhere:
        errors = nullcontext() if debug else redirect_stderr(nowhere)
        with redirect_stdout(nowhere), errors:
            yield


def import_all() -> None:
    """What takes seconds to import, with Ctrl-C held back until it is there: inside an import it may be swallowed."""
    with deferred() as stop:
        import normscope.fitting  # noqa: F401
        from normscope.training.allocator import keep_freed_memory

        keep_freed_memory()
    stop.raise_if_requested()


def explanation(error: Exception) -> str:
    if isinstance(error, NormscopeError | ImportError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}; this should not happen: --debug shows where it did, please report it"


def complain(message: str) -> None:
    typer.secho("error: " + " ".join(message.split()), fg="red", err=True)


def say(message: str) -> None:
    """For people: on standard error, so that standard output holds the result alone."""
    typer.echo(message, err=True)


def print_json(result: object) -> None:
    typer.echo(json.dumps(result, allow_nan=False))


def check_writable(path: Path) -> None:
    """Before minutes of work, not after them."""
    if is_stream(path):
        return
    folder = path.absolute().parent
    if path.is_dir():
        raise NormscopeError(f"{path} is a folder; give the name of a file to write")
    if not folder.is_dir():
        raise NormscopeError(f"{folder} does not exist; create it or write elsewhere")
    if not os.access(folder, os.W_OK):
        raise NormscopeError(f"{folder} is not writable; write elsewhere")


def check_replaceable(path: Path, force: bool) -> None:
    """What exists is replaced only if the user said so."""
    if path.is_file() and not force:
        raise NormscopeError(f"{path} exists; give another name, or replace it with --force")


def plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
