"""Ctrl-C and SIGTERM: both end a command in an orderly way, and wait where half a step would be lost."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM, as an exception like that of Ctrl-C."""


def interrupt(number: int, frame: FrameType | None = None) -> None:
    """A signal handler: raises what stands for the signal."""
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


class Stop:
    """Whether somebody asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.number: int | None = None

    @property
    def requested(self) -> bool:
        return self.number is not None

    def raise_if_requested(self) -> None:
        if self.number is not None:
            interrupt(self.number)


@contextmanager
def deferred() -> Iterator[Stop]:
    """Inside, the first signal only sets `requested`; a second one interrupts at once. Nothing off the main thread,
    where Python delivers no signals."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            interrupt(number)
        stop.number = number

    before = {number: signal.signal(number, ask) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
