"""The process in which `decoding` has files decoded, so that none can stall, swell or crash the program itself.

A request is a line of JSON; so is a reply, followed by the bytes of the pixels if there are any. A signal ends the
process when a file takes too much time, an exit code says that it took too much memory. Nothing is printed; libtiff
would.
"""

import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from normscope.errors import ImageError
from normscope.images.reader import Pixels, decode

__all__ = ["MEMORY", "OUT_OF_MEMORY", "PATIENCE", "READY", "SECONDS", "serve"]

SECONDS = 10  # of processor time for one file
PATIENCE = 60  # seconds by the clock for one file: a network drive may not answer
MEMORY = 2**30  # bytes of address space
OUT_OF_MEMORY = 77  # exit code
READY = b"ready\n"


def serve() -> None:
    """Answers requests from standard input until it is closed, which it is when the program ends."""
    replies = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    limit_memory()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it in the middle of a file, too
    replies.write(READY)
    replies.flush()
    for line in sys.stdin.buffer:
        allow(SECONDS, PATIENCE)
        reply, pixels = answer(json.loads(line))
        allow(0, 0)  # the program may take its time to read the reply
        replies.write(json.dumps(reply).encode() + b"\n")
        if pixels is not None:
            replies.write(pixels.data)
        replies.flush()


def answer(request: Mapping[str, object]) -> tuple[dict[str, object], Pixels | None]:
    path, size, max_pixels = request["path"], request["size"], request["max_pixels"]
    assert isinstance(path, str)
    assert isinstance(size, list | None)  # a tuple, as JSON has it
    assert isinstance(max_pixels, int)
    try:
        picture = decode(Path(path), (size[0], size[1]) if size else None, max_pixels=max_pixels)
    except ImageError as error:
        if isinstance(error.__cause__, MemoryError):
            os._exit(OUT_OF_MEMORY)
        return {"error": str(error)}, None
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    facts = {"shape": picture.shape, "format": picture.format, "mode": picture.mode, "animated": picture.animated}
    return {"pixels": picture.pixels.shape, **facts}, picture.pixels


def allow(seconds: int, patience: int) -> None:
    """The system ends this process after so much time from now; 0 is without end. Windows has no such timers."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, patience)


def limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        for limit, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0)):
            with suppress(ValueError, OSError):  # a lower limit is set already, or macOS, which knows none
                resource.setrlimit(limit, (most, most))
