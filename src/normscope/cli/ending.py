"""How a verb ends: exit codes, one line for an error, signals."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path

import typer

from normscope.cli.output import complain, say
from normscope.errors import NormscopeError
from normscope.training.interrupt import SIGNALS, Terminated, interrupt

READER_GONE, WRONG_USE, SOME_UNREADABLE, INTERRUPTED, TERMINATED = 1, 2, 3, 130, 143


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """An error is one red line and exit code 2; Ctrl-C is exit code 130, SIGTERM 143."""
    in_main = threading.current_thread() is threading.main_thread()  # elsewhere Python sets no handlers
    # SIGINT too, for a shell starts what runs in the background with that signal ignored.
    before = {number: signal.signal(number, interrupt) for number in SIGNALS} if in_main else {}
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
        for number, handler in before.items():
            signal.signal(number, handler)


def explanation(error: Exception) -> str:
    if isinstance(error, NormscopeError | ImportError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}; this should not happen: --debug shows where it did, please report it"


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
