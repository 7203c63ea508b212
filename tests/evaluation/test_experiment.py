"""What experiments share: lines that are measured once."""

import pytest

from normscope.evaluation import results
from normscope.evaluation.experiment import parse_tasks, read_options

NAMES = ("dataset", "normal", "amount")


def options_of(tmp_path, *arguments):
    out = ["--out", str(tmp_path / "lines.jsonl"), *arguments]
    return read_options("", "unused.jsonl", "unused.png", arguments=out)


def test_lines_are_measured_once_and_made_of_key_run_and_finding(tmp_path):
    options, asked = options_of(tmp_path, "--budget", "5s", "--threads", "2"), []

    def measure(*key):
        asked.append(key)
        return {"found": len(asked)}

    first = options.lines(NAMES, [("digits", 0, 1.5)], measure)
    again = options.lines(NAMES, [("digits", 0, 1.5), ("digits", 1, 1.5)], measure)
    assert asked == [("digits", 0, 1.5), ("digits", 1, 1.5)]
    assert again["digits", 0, 1.5] == first["digits", 0, 1.5]
    line = again["digits", 1, 1.5]
    assert {name: line[name] for name in (*NAMES, "budget", "threads", "error", "found")} == {
        "dataset": "digits",
        "normal": 1,
        "amount": 1.5,
        "budget": 5.0,
        "threads": 2,
        "error": None,
        "found": 2,
    }
    assert results.read(options.out) == list(again.values())


def test_what_was_measured_before_a_failure_is_kept(tmp_path):
    options = options_of(tmp_path)

    def measure(dataset, normal, amount):
        if normal == 1:
            raise RuntimeError("cut off")
        return {}

    with pytest.raises(RuntimeError, match="cut off"):
        options.lines(NAMES, [("digits", normal, 0) for normal in range(3)], measure)
    assert [row["normal"] for row in results.read(options.out)] == [0]


def test_a_measurement_may_say_that_the_budget_was_not_used(tmp_path):
    found = options_of(tmp_path).lines(NAMES, [("digits", 0, 0)], lambda *key: {"budget": None})
    assert found["digits", 0, 0]["budget"] is None


def test_tasks_are_read_from_their_texts():
    assert parse_tasks("cifar10:0,7") == [("cifar10", 0), ("cifar10", 7)]
