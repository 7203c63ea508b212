"""What the tests of faults share: limits of time and memory."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

MB = 2**20


class TooSlowError(Exception):
    pass


def ring(number: int, frame: object) -> None:
    raise TooSlowError


@contextmanager
def bounded(seconds: float, megabytes: float | None = None) -> Iterator[None]:
    """Raises if what is inside takes more processor time, or more memory at its peak (where Linux tells)."""
    measured = megabytes is not None and os.access("/proc/self/clear_refs", os.W_OK)
    if measured:
        Path("/proc/self/clear_refs").write_text("5")
    before, handler = peak() if measured else 0, signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
    if measured:
        assert megabytes is not None
        assert peak() - before < megabytes * MB


def peak() -> int:
    """Of this process, in bytes, since /proc/self/clear_refs was written to."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return 1024 * int(found[1])


@pytest.fixture(scope="session")
def within() -> Callable[..., AbstractContextManager[None]]:
    return bounded
