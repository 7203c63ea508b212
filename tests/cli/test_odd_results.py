"""Whatever is in a file of results, the verbs that read it end in one line that says where and what."""

import json

import pytest

GOOD = {"dataset": "digits", "method": "knn", "settings": {"k": 5, "batch_size": 256}, "normal": 0, "seed": 0}
GOOD |= {"budget": 120.0, "metrics": {"auroc": 0.9}, "health": "ok", "error": None}


def without(name: str) -> dict:
    return {key: value for key, value in GOOD.items() if key != name}


ODD = {
    "a list": ([GOOD], "is not a result: it is not a JSON object"),
    "no object": (3, "is not a result: it is not a JSON object"),
    "empty": ({}, "has no 'error'"),
    "metrics is a number": (GOOD | {"metrics": 5}, "has 5 as 'metrics', which is no object"),
    "metrics is a list": (GOOD | {"metrics": [0.9]}, "has [0.9] as 'metrics', which is no object"),
    "metrics is missing": (without("metrics"), "has no 'metrics'"),
    "settings is null": (GOOD | {"settings": None}, "has no 'settings'"),
    "settings is missing": (without("settings"), "has no 'settings'"),
    "method is missing": (without("method"), "has no 'method'"),
    "NaN": (GOOD | {"metrics": {"auroc": float("nan")}}, "NaN is not a finite number"),
    "infinite setting": (GOOD | {"settings": {"k": float("inf")}}, "Infinity is not a finite number"),
    "huge class": (GOOD | {"normal": 10**12}, "which is not the number of a class"),
    "huge number": (GOOD | {"budget": 10**400}, "has too many digits"),
    "text for a number": (GOOD | {"metrics": {"auroc": "0.9"}}, "has '0.9' as 'auroc', which is no number"),
    "text for a class": (GOOD | {"normal": "0"}, "has '0' as 'normal', which is no whole number"),
    "per cent": (GOOD | {"metrics": {"auroc": 90.0}}, "which is not between 0 and 1"),
    "error is a number": (GOOD | {"error": 0}, "has 0 as 'error', which is no text"),
    "interval of one": (GOOD | {"intervals": {"auroc": [0.9]}}, "which is not two numbers"),
}


@pytest.mark.parametrize("end", ["\n", ""], ids=["whole line", "no line end"])
@pytest.mark.parametrize("name", ODD)
def test_an_odd_result_is_one_line(refused, tmp_path, in_this_process, name, end):
    odd, message = ODD[name]
    path, good = tmp_path / "odd", tmp_path / "good"
    good.write_text(json.dumps(GOOD) + "\n")
    path.write_text(json.dumps(GOOD | {"seed": 1}) + "\n" + json.dumps(odd) + end)
    content = path.read_bytes()
    for arguments in (
        ["table", path],
        ["compare", path, good],
        ["compare", good, path],
        ["bench", "digits", "--methods", "knn", "--classes", "0", "--out", path],
    ):
        line = refused(*arguments)
        assert line.startswith(f"error: {path} line 2 ")
        assert message in line
        assert "should not happen" not in line
    assert path.read_bytes() == content


def test_files_of_something_else_are_not_added_to(refused, tmp_path, in_this_process):
    path = tmp_path / "r"
    for content in (b"\xff\xd8\xff\xe0\n", b"a letter to nobody", b"name,value\n1,2\n", b"\n"):
        path.write_bytes(content)
        for arguments in (["table", path], ["bench", "digits", "--methods", "knn", "--classes", "0", "--out", path]):
            assert f"{path} line 1 is not a result: it is not JSON" in refused(*arguments)
        assert path.read_bytes() == content
