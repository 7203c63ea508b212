"""What requests may ask for. Every limit is finite, and an error that comes of one says how to change it."""

from dataclasses import dataclass

from normscope.errors import NormscopeError
from normscope.images.reader import MAX_PIXELS

__all__ = ["FLAGS", "BusyError", "Limits", "variable"]

MB = 1_000_000
MOST_FILES = 1000  # in one request; nothing that anybody would change
FLAGS = {
    "body": "--max-body-mb",
    "pixels": "--max-megapixels",
    "seconds": "--max-seconds",
    "queued": "--max-queued",
    "history": "--history",
}


class BusyError(NormscopeError):
    """The server cannot take this request now; the client may try again soon."""


@dataclass(frozen=True)
class Limits:
    body: int = 20 * MB  # bytes of a request
    pixels: int = MAX_PIXELS  # of an image
    seconds: float = 30.0  # from the last byte of a request to its answer
    queued: int = 64  # requests that wait to be scored
    history: int = 100  # results that are kept in memory

    @property
    def body_exceeded(self) -> str:
        return f"the request has more than {self.body / MB:g} MB; {allowed_by('body')}"

    @property
    def seconds_exceeded(self) -> str:
        return f"there was no score within {self.seconds:g} s; send fewer images at a time, or {allowed_by('seconds')}"

    @property
    def queue_full(self) -> str:
        return f"{self.queued} requests are waiting already; try again soon, or {allowed_by('queued')}"

    @property
    def pixels_exceeded(self) -> str:
        return allowed_by("pixels")


def allowed_by(limit: str) -> str:
    return f"the server's limit is set by {FLAGS[limit]} or {variable(FLAGS[limit])}"


def variable(flag: str) -> str:
    """The environment variable that does what a flag of `normscope serve` does."""
    return "NORMSCOPE_" + flag.removeprefix("--").upper().replace("-", "_")
