import json

import pytest

from normscope.errors import DatasetError
from normscope.evaluation.rows import checked, read

ROW = {"dataset": "mnist", "method": "knn", "normal": 3, "seed": 0, "budget": 60, "settings": {"k": 5, "a": 1}}
ROW |= {"metrics": {"auroc": 0.9, "pro": 1}, "health": "ok", "error": None}


def write(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_what_a_row_says():
    row = checked(ROW, "auroc")
    assert (row.dataset, row.normal, row.seed, row.value, row.health, row.error) == ("mnist", 3, 0, 0.9, "ok", None)
    assert row.variant.budget == 60.0
    assert row.variant.chosen() == {"k": 5, "a": 1}
    assert (row.variant.epochs, row.variant.test_images, row.interval) == (None, None, None)
    late = checked({**ROW, "epochs": 5, "test_images": 100, "intervals": {"auroc": [0.8, 1]}}, "auroc")
    assert (late.variant.epochs, late.variant.test_images, late.interval) == (5, 100, (0.8, 1.0))
    assert checked(ROW, "pro").value == 1.0


def test_settings_in_another_order_are_the_same_variant():
    assert checked({**ROW, "settings": {"a": 1, "k": 5}}, "auroc").variant == checked(ROW, "auroc").variant


def test_a_curve_beside_the_figures_does_not_make_another_variant():
    assert checked({**ROW, "every": 5}, "auroc").cell() == checked(ROW, "auroc").cell()


def test_a_failed_cell_has_no_value():
    row = checked({**ROW, "metrics": None, "health": None, "error": "MemoryError: "}, "auroc")
    assert (row.value, row.error) == (None, "MemoryError: ")


def test_of_a_cell_in_two_files_the_last_is_taken(tmp_path):
    one = write(tmp_path / "a", ROW, {**ROW, "seed": 1}, {**ROW, "metrics": {"auroc": 0.7}})
    other = write(tmp_path / "b", {**ROW, "metrics": {"auroc": 0.5}})
    assert [(row.seed, row.value) for row in read([one], "auroc")] == [(1, 0.9), (0, 0.7)]
    assert [(row.seed, row.value) for row in read([one, other], "auroc")] == [(1, 0.9), (0, 0.5)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": None}, "has no 'dataset'"),
        ({"method": 3}, "has 3 as 'method', which is no str"),
        ({"normal": "3"}, "has '3' as 'normal', which is no int"),
        ({"seed": True}, "has True as 'seed'"),
        ({"settings": []}, r"has \[\] as 'settings', which is no dict"),
        ({"budget": "1m"}, "has '1m' as 'budget'"),
        ({"metrics": None}, "has no 'metrics'"),
        ({"metrics": {"pro": 1}}, "has no metric 'auroc' but pro"),
        ({"metrics": {"auroc": "0.9"}}, "has '0.9' as 'auroc'"),
        ({"intervals": {"auroc": [1]}}, r"has \[1\] as an interval"),
        ({"error": 1}, "has 1 as 'error'"),
    ],
)
def test_a_row_of_something_else_is_named_with_its_line(tmp_path, change, message):
    path = write(tmp_path / "r", ROW, {**ROW, **change})
    with pytest.raises(DatasetError, match=f"{path} line 2 {message}"):
        read([path], "auroc")


def test_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(DatasetError, match="is no file; give one that `normscope bench` wrote"):
            read([path], "auroc")
