import json

import pytest

from normscope.benchmark.measurement import checked, read
from normscope.errors import DatasetError

RESULT = {"dataset": "mnist", "method": "knn", "normal": 3, "seed": 0, "budget": 60, "settings": {"k": 5, "a": 1}}
RESULT |= {"metrics": {"auroc": 0.9, "pro": 1}, "health": "ok", "error": None}


def write(path, *results):
    path.write_text("".join(json.dumps(result) + "\n" for result in results))
    return path


def test_what_a_result_says(tmp_path):
    late = {"epochs": 5, "every": 1, "test_images": 100, "intervals": {"auroc": [0.8, 1]}, "data": "abc"}
    one, other = read(write(tmp_path / "r", RESULT, {**RESULT, **late}))
    assert (one.cell.dataset, one.cell.method, one.cell.normal, one.cell.seed) == ("mnist", "knn", 3, 0)
    assert (one.cell.budget, one.cell.settings) == (60.0, {"k": 5, "a": 1})
    assert (one.metrics, one.intervals, one.health) == ({"auroc": 0.9, "pro": 1.0}, {}, "ok")
    assert (one.error, one.data, one.source) == (None, None, f"{tmp_path / 'r'} line 1")
    assert (one.cell.epochs, one.cell.every, one.cell.test_images) == (None, None, None)
    assert (other.cell.epochs, other.cell.every, other.cell.test_images) == (5, 1, 100)
    assert (other.intervals, other.data) == ({"auroc": (0.8, 1.0)}, "abc")


def test_a_failed_cell_has_no_metrics():
    failed = checked({**RESULT, "metrics": None, "health": None, "error": "MemoryError: "}, "here")
    assert (failed.metrics, failed.error, failed.health) == ({}, "MemoryError: ", "unknown")


def test_a_metric_that_was_not_measured_is_named():
    assert checked(RESULT, "here").value("pro") == 1
    with pytest.raises(DatasetError, match="here has no metric 'f1' but auroc, pro"):
        checked(RESULT, "here").value("f1")


ODD = [
    ({"dataset": None}, "has no 'dataset'"),
    ({"method": 3}, "has 3 as 'method', which is no text"),
    ({"normal": "3"}, "has '3' as 'normal', which is no whole number"),
    ({"normal": 3.0}, "has 3.0 as 'normal', which is no whole number"),
    ({"normal": -1}, "has -1 as 'normal', which is not the number of a class"),
    ({"normal": 10**17}, f"has {10**17} as 'normal', which is not the number of a class"),
    ({"seed": True}, "has True as 'seed', which is no whole number"),
    ({"settings": None}, "has no 'settings'"),
    ({"settings": []}, r"has \[\] as 'settings', which is no object"),
    ({"budget": "1m"}, "has '1m' as 'budget', which is no number"),
    ({"epochs": {}}, "has {} as 'epochs', which is no whole number"),
    ({"every": "1"}, "has '1' as 'every'"),
    ({"test_images": [5]}, r"has \[5\] as 'test_images'"),
    ({"metrics": None}, "has no 'metrics'"),
    ({"metrics": 0.9}, "has 0.9 as 'metrics', which is no object"),
    ({"metrics": {"auroc": "0.9"}}, "has '0.9' as 'auroc', which is no number"),
    ({"metrics": {"auroc": None}}, "has no 'auroc'"),
    ({"metrics": {"auroc": 90}}, "has 90.0 as 'auroc', which is not between 0 and 1"),
    ({"metrics": {"auroc": 0.9, "pro": -0.1}}, "has -0.1 as 'pro', which is not between 0 and 1"),
    ({"intervals": {"auroc": [1]}}, r"has \[1\] as the interval of 'auroc', which is not two numbers"),
    ({"intervals": {"auroc": [0, "1"]}}, "has '1' as 'auroc', which is no number"),
    ({"intervals": [0, 1]}, r"has \[0, 1\] as 'intervals', which is no object"),
    ({"health": 1}, "has 1 as 'health', which is no text"),
    ({"error": 1}, "has 1 as 'error', which is no text"),
    ({"data": 1}, "has 1 as 'data', which is no text"),
]


@pytest.mark.parametrize(("change", "message"), ODD)
def test_an_odd_result_is_named_with_its_line(tmp_path, change, message):
    path = write(tmp_path / "r", RESULT, {**RESULT, **change})
    with pytest.raises(DatasetError, match=f"^{path} line 2 {message}.*; give a file that `normscope bench` wrote$"):
        read(path)


def test_a_result_without_an_error_is_odd_too():
    with pytest.raises(ValueError, match="has no 'error'"):
        checked({name: value for name, value in RESULT.items() if name != "error"}, "here")
