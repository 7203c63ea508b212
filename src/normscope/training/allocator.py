"""Freed memory is kept for the next tensor, not given back to the system."""

import ctypes
from contextlib import suppress

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # numbers of malloc.h
LARGEST = 2**30  # bytes of a block that is kept


def keep_freed_memory() -> None:
    """For a process of our own, before its first tensor; where the C library is not glibc, nothing happens.

    glibc gives a block of more than 32 MB back when it is freed and asks for the next one page by page: for
    photographs, whose batches and maps are that large, a fifth of the time.
    """
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(MMAP_THRESHOLD, LARGEST)
        library.mallopt(TRIM_THRESHOLD, 2 * LARGEST - 1)
