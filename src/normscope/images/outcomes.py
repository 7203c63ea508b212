"""Many files and what is known of them before they are decoded, in little memory."""

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import overload

from normscope.images.outcome import FileOutcome, Kind

__all__ = ["Outcomes"]

ENCODING = ("utf-8", "surrogatepass")  # any string that is a path, even an impossible one


class Outcomes(Sequence[FileOutcome]):
    """Outcomes of files that were not decoded, in order; for an image that is the bytes of its name and eight more.

    The folder is kept once for neighbours that share it. An outcome is made when it is asked for.
    """

    def __init__(self, outcomes: Iterable[FileOutcome]) -> None:
        self._folders: list[str] = []  # each with a separator behind it
        self._starts = array("Q")  # of each folder, the position of its first file
        self._names = bytearray()  # one after the other
        self._ends = array("Q")  # of each name
        self._left_out: dict[int, tuple[Kind, str]] = {}  # by position, what is no image
        for one in outcomes:
            self._append(one)

    def _append(self, one: FileOutcome) -> None:
        if one.kind is not Kind.IMAGE:
            self._left_out[len(self)] = one.kind, one.reason
        folder, separator, name = str(one.path).rpartition(os.sep)
        if self._folders[-1:] != [folder + separator]:
            self._folders.append(folder + separator)
            self._starts.append(len(self))
        self._names += name.encode(*ENCODING)
        self._ends.append(len(self._names))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> FileOutcome: ...
    @overload
    def __getitem__(self, index: slice) -> list[FileOutcome]: ...
    def __getitem__(self, index: int | slice) -> FileOutcome | list[FileOutcome]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        return FileOutcome(Path(self.path(position)), *self._left_out.get(position, ()))

    def path(self, position: int) -> str:
        begin = self._ends[position - 1] if position else 0
        name = self._names[begin : self._ends[position]].decode(*ENCODING)
        return self._folders[bisect_right(self._starts, position) - 1] + name
