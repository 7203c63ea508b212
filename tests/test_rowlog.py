import os

import pytest

from normscope.errors import NormscopeError
from normscope.rowlog import line, opened

COLUMNS = ("path", "score")


def written(path, *rows):
    with opened(path, COLUMNS) as log:
        for name, score in rows:
            log.append({"score": score, "path": name, "more": 1})
    return path


def names(path):
    with opened(path, COLUMNS) as log:
        return [row["path"] for row in log.rows]


def test_rows_are_there_when_it_is_opened_again(tmp_path):
    path = written(tmp_path / "rows.csv", ("a", 1.5), ('b",\\n', None))
    written(path, ("c", 2))
    assert names(path) == ["a", 'b",\\n', "c"]
    assert path.read_bytes().startswith(b'"path","score"\r\n"a",1.5\r\n')


def test_whatever_was_cut_off_a_row_is_there_or_not(tmp_path):
    path = written(tmp_path / "rows.csv", ("a", 1), ("b", 2))
    content = path.read_bytes()
    header, first = len(line(COLUMNS)), len(line(["a", 1]))
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        expected = [name for name, end in (("a", header + first), ("b", len(content))) if length >= end]
        assert names(path) == expected
        assert names(written(path, ("c", 3))) == [*expected, "c"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"path,verdict\na,fine\nb", "has the columns path, verdict, not path, score"),
        (b"notes", "has the columns notes"),
        (b'"path","score"\r\n"a"\r\n"b', "line 2: 1 columns"),
        (b"\xff\xfe\n", "is no CSV file in UTF-8"),
    ],
)
def test_a_file_of_another_kind_is_left_as_it_is(tmp_path, content, message):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(NormscopeError, match=message), opened(path, COLUMNS):
        pass
    assert path.read_bytes() == content


def test_one_process_at_a_time(tmp_path):
    path = tmp_path / "rows.csv"
    with opened(path, COLUMNS), pytest.raises(NormscopeError, match="another process writes to"):
        names(path)
    assert names(path) == []


def test_rows_do_not_go_to_a_file_that_was_removed(tmp_path):
    with opened(tmp_path / "rows.csv", COLUMNS) as log:
        (tmp_path / "rows.csv").unlink()
        with pytest.raises(NormscopeError, match="was removed"):
            log.append({"path": "a", "score": 1})


def test_a_row_is_on_the_disk_before_the_next(tmp_path, monkeypatch):
    synced = []
    with opened(tmp_path / "rows.csv", COLUMNS) as log:
        monkeypatch.setattr(os, "fsync", lambda handle: synced.append((tmp_path / "rows.csv").read_bytes()))
        log.append({"path": "a", "score": 1})
        log.append({"path": "b", "score": 2})
    assert [content.count(b"\n") for content in synced] == [2, 3]
