"""Which files of a folder are completely written and not scored yet; nothing is decoded here."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from normscope.images.folder import scan
from normscope.images.outcome import FileOutcome, Kind

SETTLED = 2  # polls at which a file was found unchanged: it is completely written
LAST_TRY = 10  # the same for a file that could not be read at first: its writer may have paused


class Signature(NamedTuple):
    """By which a file that was replaced is told from what was there before: bytes, and nanoseconds since 1970."""

    size: int
    modified: int


class Sighting(NamedTuple):
    """A file that is not scored yet, and at how many polls in a row it was like this."""

    file: FileOutcome
    signature: Signature
    polls: int

    @property
    def due(self) -> bool:
        return self.polls in (SETTLED, LAST_TRY)


def signature(path: Path) -> Signature | None:
    """Of the file, or of a link that leads nowhere; None if there is nothing."""
    for status_of in (path.stat, path.lstat):
        try:
            status = status_of()
        except OSError:
            continue
        return Signature(status.st_size, status.st_mtime_ns)
    return None


def look(folder: Path, before: Mapping[Path, Sighting], scored: Mapping[Path, Signature]) -> dict[Path, Sighting]:
    """One poll, after that which found `before`: every image below the folder that is not scored as it is now."""
    found = {}
    for file in scan(folder):
        now = None if file.kind is Kind.IGNORED else signature(file.path)
        if now is None or scored.get(file.path) == now:
            continue
        last = before.get(file.path)
        polls = last.polls if last and last.signature == now else 0
        found[file.path] = Sighting(file, now, polls + 1)
    return found
