"""Decodes files that nobody vouches for: each becomes an image or a reason, within bounded time and memory.

Small files are decoded in this process, which is fastest; at most that takes a second. All others, and those that fail,
go to a worker process, which the system ends when a file takes too much time or memory. Workers are reused.
"""

import atexit
import io
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import cast

import numpy as np

from normscope.errors import ImageError, NormscopeError
from normscope.images.reader import FORMATS, MAX_PIXELS, Picture, decode, read_beginning
from normscope.images.size import Size
from normscope.images.worker import MEMORY, OUT_OF_MEMORY, PATIENCE, READY, SECONDS

__all__ = ["decode_file", "decode_in_worker"]

SMALL_BYTES = 2**16
SMALL_PIXELS = 2**18  # with both limits the slowest file known, a JPEG of 5000 scans, takes a second
SMALL_FORMATS = tuple(format for format in FORMATS if format != "TIFF")  # libtiff prints to standard error
WORKERS = max(2, os.cpu_count() or 1)  # at most; further threads wait for one
START = "import sys; sys.path[:] = sys.argv[1:]; from normscope.images.worker import serve; serve()"
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # numpy would reserve memory for each thread
    "MALLOC_MMAP_THRESHOLD_": str(2**25),  # glibc would give the memory of each image back to the system and ask for it
    "MALLOC_TRIM_THRESHOLD_": str(2**26),  # again for the next: half of the time for photographs
}
OUT_OF_TIME = {
    "SIGPROF": f"decoding it takes more than {SECONDS} s of processor time",
    "SIGALRM": f"it could not be read within {PATIENCE} s",
}
REASONS = {**OUT_OF_TIME, f"exit code {OUT_OF_MEMORY}": f"decoding it takes more than {MEMORY // 2**20} MB of memory"}


def decode_file(path: Path, size: Size | None = None, *, max_pixels: int = MAX_PIXELS) -> Picture:
    """As `reader.decode`, with time and memory bounded; from any thread."""
    beginning = read_beginning(path, SMALL_BYTES + 1)
    if len(beginning) <= SMALL_BYTES:
        with suppress(ImageError):
            return decode(beginning, size, max_pixels=min(SMALL_PIXELS, max_pixels), formats=SMALL_FORMATS)
    return decode_in_worker(path, size, max_pixels=max_pixels)


def decode_in_worker(path: Path, size: Size | None = None, *, max_pixels: int = MAX_PIXELS) -> Picture:
    request = json.dumps({"path": str(path.absolute()), "size": size, "max_pixels": max_pixels}).encode() + b"\n"
    with places:
        worker = idle_or_new()
        while (reply := worker.ask(request)) is None:
            end = worker.ended_by
            if worker.fresh or end in OUT_OF_TIME:
                raise ImageError(REASONS.get(end, f"the decoder crashed on it ({end})"))
            worker = Worker()  # an earlier file may have left the last one damaged or short of memory
        idle.append(worker)
    if isinstance(reply, str):
        raise ImageError(reply)
    return reply


class Worker:
    """A process that runs `worker.serve`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **ENVIRONMENT},
        )
        self.requests = cast(io.BufferedWriter, self.process.stdin)
        self.replies = cast(io.BufferedReader, self.process.stdout)
        self.ready = False
        self.fresh = True  # has not answered yet

    def ask(self, request: bytes) -> Picture | str | None:
        """The image or why there is none; None if the process ended instead."""
        try:
            reply = self.exchange(request)
        except BaseException:
            self.process.kill()
            self.close()
            raise
        if reply is None:
            self.close()
            if self.ended_by == "SIGINT":
                raise KeyboardInterrupt
            if not self.ready:
                raise NormscopeError(f"no image can be decoded: {sys.executable} does not start ({self.ended_by})")
        else:
            self.fresh = False
        return reply

    def exchange(self, request: bytes) -> Picture | str | None:
        with suppress(BrokenPipeError):
            self.requests.write(request)
            self.requests.flush()
        self.ready = self.ready or self.replies.readline() == READY
        line = self.replies.readline()
        if not line:
            return None
        reply = json.loads(line)
        if "error" in reply:
            return str(reply["error"])
        pixels = np.empty(reply["pixels"], np.uint8)
        if self.replies.readinto(pixels.data) < pixels.nbytes:
            return None
        return Picture(pixels, tuple(reply["shape"]), reply["format"], reply["mode"], reply["animated"])

    @property
    def ended_by(self) -> str:
        code = self.process.returncode
        return signal.Signals(-code).name if code < 0 else f"exit code {code}"

    def close(self) -> None:
        """Ends a process that waits for a request; of one that has ended already nothing is left behind."""
        for pipe in (self.requests, self.replies):
            with suppress(BrokenPipeError):
                pipe.close()
        self.process.wait()


idle: list[Worker] = []  # appending and popping are atomic
places = threading.Semaphore(WORKERS)


def idle_or_new() -> Worker:
    while idle:
        with suppress(IndexError):  # another thread was faster
            worker = idle.pop()
            if worker.process.poll() is None:
                return worker
            worker.close()
    return Worker()


@atexit.register
def close_idle() -> None:
    while idle:
        idle.pop().close()


def forget_all() -> None:
    """After a fork: they are the parent's, and would outlive it if this process kept their pipes open."""
    global places
    for worker in idle:
        worker.process.returncode = 0  # so that this process, whose child it is not, does not wait for it
        worker.close()
    idle.clear()
    places = threading.Semaphore(WORKERS)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_all)
