import json
import multiprocessing
import sys

import pytest

from normscope.benchmark.results import append, read
from normscope.errors import DatasetError


def test_results_come_back_in_order(tmp_path):
    rows = [{"number": 1.5, "text": "é\u2028\x85", "none": None}, {"list": [1, {"a": True}]}]
    for row in rows:
        append(tmp_path / "r", row)
    assert read(tmp_path / "r") == rows
    assert (tmp_path / "r").read_bytes().count(b"\n") == 2


def test_no_file_no_rows(tmp_path):
    assert read(tmp_path / "r") == []
    (tmp_path / "r").touch()
    assert read(tmp_path / "r") == []


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_row_that_was_cut_off_is_left_out_and_then_replaced(tmp_path, cut):
    path = tmp_path / "r"
    append(path, {"row": 1})
    whole = path.read_bytes()
    append(path, {"row": "two, é"})
    path.write_bytes(path.read_bytes()[: len(whole) + cut])
    assert read(path) == [{"row": 1}]
    append(path, {"row": 3})
    assert read(path) == [{"row": 1}, {"row": 3}]


def test_a_last_row_without_its_line_end_is_kept(tmp_path):
    (tmp_path / "r").write_text('{"row": 1}')
    assert read(tmp_path / "r") == [{"row": 1}]
    append(tmp_path / "r", {"row": 2})
    assert read(tmp_path / "r") == [{"row": 1}, {"row": 2}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"not JSON", "it is not JSON"),
        (b"", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b"[1]", "it is not a JSON object"),
        (b"3", "it is not a JSON object"),
        (b'{"auroc": NaN}', "NaN is not a finite number"),
        (b'{"auroc": -1e999}', "-1e999 is not a finite number"),
        (b'{"normal": 1' + b"0" * 5000 + b"}", "100000000000000000… has too many digits"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "it is nested too deeply"),
    ],
)
def test_a_damaged_line_is_named_wherever_it_is(tmp_path, line, message):
    for before, after in ((b'{"row": 1}\n', b'\n{"row": 3}\n'), (b'{"row": 1}\n', b"\n"), (b'{"row": 1}\n', b"")):
        if not line + after:
            continue
        (tmp_path / "r").write_bytes(before + line + after)
        with pytest.raises(DatasetError, match=f"line 2 is not a result: {message}; repair or delete it"):
            read(tmp_path / "r")


def test_a_value_that_is_not_finite_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        append(tmp_path / "r", {"auroc": float("nan")})
    assert read(tmp_path / "r") == []


def append_many(path, writer):
    for number in range(50):
        append(path, {"writer": writer, "number": number, "long": "x" * 5000})


@pytest.mark.skipif(sys.platform == "win32", reason="there is no lock there")
def test_two_writers_do_not_mix(tmp_path):
    context = multiprocessing.get_context("fork")  # does not import anything again
    writers = [context.Process(target=append_many, args=(tmp_path / "r", writer)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    rows = read(tmp_path / "r")
    for writer in range(3):
        assert [row["number"] for row in rows if row["writer"] == writer] == list(range(50))


def test_lines_can_be_read_by_others(tmp_path):
    append(tmp_path / "r", {"text": "é"})
    assert json.loads((tmp_path / "r").read_bytes().decode("ascii")) == {"text": "é"}
