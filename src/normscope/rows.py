"""The rows of many files in little memory."""

import math
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

from normscope.images.notation import printable
from normscope.images.outcomes import Outcomes

if TYPE_CHECKING:
    from normscope.model import Row

VERDICTS = (None, False, True)


class Rows(Sequence["Row"]):
    """Rows of the first so many of `files`, in columns of 25 bytes a row; a row is made when it is asked for."""

    def __init__(self, files: Outcomes) -> None:
        self._files = files  # has the paths
        self._scores, self._p_values, self._p_estimates = array("d"), array("d"), array("d")  # NaN for None
        self._verdicts = bytearray()  # positions in VERDICTS
        self._errors: dict[int, str] = {}  # by position

    def append(self, row: "Row") -> None:
        """The row of the next file."""
        if row["error"] is not None:
            self._errors[len(self)] = row["error"]
        self._scores.append(or_nan(row["score"]))
        self._p_values.append(or_nan(row["p_value"]))
        self._p_estimates.append(or_nan(row["p_estimate"]))
        self._verdicts.append(VERDICTS.index(row["anomalous"]))

    def __len__(self) -> int:
        return len(self._verdicts)

    @overload
    def __getitem__(self, index: int) -> "Row": ...
    @overload
    def __getitem__(self, index: slice) -> "list[Row]": ...
    def __getitem__(self, index: int | slice) -> "Row | list[Row]":
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        return {
            "path": printable(self._files.path(position)),
            "score": or_none(self._scores[position]),
            "p_value": or_none(self._p_values[position]),
            "p_estimate": or_none(self._p_estimates[position]),
            "anomalous": VERDICTS[self._verdicts[position]],
            "error": self._errors.get(position),
        }


def or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
