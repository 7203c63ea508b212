"""Ctrl-C and SIGTERM wait for the end of the step, so that what is saved is whole."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Whether somebody asked to stop."""

    requested = False


@contextmanager
def deferred() -> Iterator[Stop]:
    """Inside, the first signal only sets `requested`; a second Ctrl-C interrupts at once. Nothing off the main thread,
    where Python delivers no signals."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt
        stop.requested = True

    before = {number: signal.signal(number, ask) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
