"""What requests may ask for. Every limit is finite, and an error that comes of one says how to change it."""

from dataclasses import dataclass

from normscope.errors import NormscopeError
from normscope.images.reader import MAX_PIXELS

__all__ = ["FLAGS", "RETRY", "BusyError", "Limits", "Room", "variable"]

RETRY = {"Retry-After": "2"}

MB = 1_000_000
BODIES = 25  # that are held at once, at their longest
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
    def room(self) -> int:
        """Bytes of memory that bodies may take together, and the earliest beyond it."""
        return BODIES * self.body

    @property
    def room_exceeded(self) -> str:
        return f"other requests fill the memory for bodies; try again soon, or {allowed_by('body')}"

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


class Room:
    """Memory that the bodies of all requests in flight take, about; used by the event loop alone."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken: dict[object, int] = {}  # by each of them, the earliest first

    def take(self, request: object, size: int) -> bool:
        """Whether there is room; for the earliest there always is, so that of many at once some are answered."""
        mine = self.taken.setdefault(request, 0) + size
        if sum(self.taken.values()) + size > self.most and next(iter(self.taken)) is not request:
            return False
        self.taken[request] = mine
        return True

    def leave(self, request: object) -> None:
        self.taken.pop(request, None)


def allowed_by(limit: str) -> str:
    return f"the server's limit is set by {FLAGS[limit]} or {variable(FLAGS[limit])}"


def variable(flag: str) -> str:
    """The environment variable that does what a flag of `normscope serve` does."""
    return "NORMSCOPE_" + flag.removeprefix("--").upper().replace("-", "_")
