from pathlib import Path

import pytest

from normscope.images.outcome import FileOutcome
from normscope.images.outcomes import Outcomes
from normscope.rows import Rows

KEYS = ("path", "score", "p_value", "p_estimate", "anomalous", "error")
VALUES = [
    ("a/x.png", 0.1 + 0.2, 1 / 3, None, False, None),
    ("a/y.png", None, None, None, None, "empty file (0 bytes)"),
    ("b/\\n.png", -0.0, 1.0, 1e-300, True, None),
    ("b/z.png", 1e308, None, None, None, None),
]


def test_rows_come_out_as_they_went_in():
    given = [dict(zip(KEYS, values, strict=True)) for values in VALUES]
    files = [Path("a/x.png"), Path("a/y.png"), Path("b/\n.png"), Path("b/z.png"), Path("b/not scored yet.png")]
    rows = Rows(Outcomes(map(FileOutcome, files)))
    for row in given:
        rows.append(row)
    assert [*map(repr, rows)] == [*map(repr, given)]  # repr tells 0.0 from -0.0
    assert [list(row) for row in rows] == [list(KEYS)] * 4
    assert rows[-2:] == given[-2:]
    with pytest.raises(IndexError):
        rows[4]
