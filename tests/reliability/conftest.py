"""What the tests of faults share: limits of time and memory."""

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from normscope.images.decoding import close_idle

MB = 2**20


class TooSlowError(Exception):
    pass


def ring(number: int, frame: object) -> None:
    raise TooSlowError("it takes too much processor time")


@contextmanager
def bounded(seconds: float, megabytes: float | None = None) -> Iterator[None]:
    """Raises if what is inside takes more processor time, or more memory at its peak (where Linux tells).

    Of this process and of the processes that it started inside, decoders above all: their time is added, and each of
    them has the same limit of memory.
    """
    measured = megabytes is not None and os.access("/proc/self/clear_refs", os.W_OK)
    if measured:
        Path("/proc/self/clear_refs").write_text("5")
    close_idle()  # only what has ended is counted
    before, began, handler = peak() if measured else 0, spent(), signal.signal(signal.SIGPROF, ring)
    largest = largest_child()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
        close_idle()
    if spent() - began > seconds:
        raise TooSlowError("it took too much processor time")
    if measured:
        assert megabytes is not None
        assert peak() - before < megabytes * MB
        # Linux tells of all children so far, and counts for each what this process had when it started it.
        assert largest_child() <= max(megabytes * MB, largest, peak())


def spent() -> float:
    """Processor time of this process and of those that it started and that have ended."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def peak() -> int:
    """Of this process, in bytes, since /proc/self/clear_refs was written to."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return 1024 * int(found[1])


def largest_child() -> int:
    """In bytes."""
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


@pytest.fixture(scope="session")
def within() -> Callable[..., AbstractContextManager[None]]:
    return bounded
