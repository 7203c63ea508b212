"""The figures of the paper are as printed: their means and SDs are recomputed, and what disagrees has its note."""

from math import sqrt
from statistics import fmean, pstdev, stdev

import pytest

from normscope.tables import paper

ROWS = [(dataset, method) for dataset in paper.datasets() for method in paper.methods(dataset)]
ROUNDING = 0.1 / sqrt(12)  # SD of what rounding to one decimal changes


def agrees(row: paper.PublishedRow, sd: float) -> bool:
    """Half a unit of the last digit, and two standard errors of what rounding the classes may have changed."""
    n = len(row.classes)
    mean_error = abs(fmean(row.classes) - row.mean)
    return mean_error <= 0.05 + 2 * ROUNDING / sqrt(n) and abs(sd - row.sd) <= 0.005 + 2 * ROUNDING / sqrt(n - 1)


@pytest.mark.parametrize(("dataset", "method"), ROWS)
def test_a_row_agrees_with_its_mean_and_sd_or_has_a_note(dataset, method):
    row = paper.row(dataset, method)
    assert agrees(row, stdev(row.classes)) == (row.note is None)


@pytest.mark.parametrize("method", ["ganomaly", "geotrans", "arnet"])
def test_borrowed_rows_of_imagenet_divide_by_n(method):
    row = paper.row("imagenet", method)
    assert agrees(row, pstdev(row.classes))
    assert f"{row.sd:.2f}" in row.note
    assert f"{stdev(row.classes):.2f}" in row.note


def test_notes_name_what_the_classes_give():
    for dataset, method in ROWS:
        row = paper.row(dataset, method)
        if row.note is not None and "printed mean" in row.note:
            assert row.note == f"the printed mean is {row.mean}; its classes give {fmean(row.classes):.1f}"
    base = paper.row("cifar10", "base")
    assert (base.sd, round(stdev(base.classes), 2)) == (5.47, 7.02)
    assert "5.47" in base.note
    assert "7.02" in base.note


def test_all_of_table_3_is_there():
    assert {name: len(paper.methods(name)) for name in paper.datasets()} == {
        "mnist": 10,
        "fashion-mnist": 8,
        "cifar10": 12,
        "imagenet": 5,
        "cifar100": 8,
    }
    assert [paper.class_count(name) for name in paper.datasets()] == [10, 10, 10, 10, 20]
    assert all(len(paper.row(*one).classes) == paper.class_count(one[0]) for one in ROWS)
    assert all(0 < value < 100 for one in ROWS for value in paper.row(*one).classes)


def test_some_figures_by_eye():
    assert paper.row("mnist", "deep-svdd").classes[5] == 88.5
    assert paper.row("cifar100", "arnet").classes[10:12] == (85.9, 83.5)  # where the table breaks
    extension = paper.row("cifar10", "extension")
    assert (extension.classes[3], extension.mean, extension.sd) == (85.8, 92.6, 3.65)
    assert extension.borrowed_from is None
    assert "deecke2018anomaly" in paper.row("mnist", "vae").borrowed_from


def test_the_three_tables_say_the_same_of_the_base_model():
    one = next(row for row in paper.paper()["table_1"] if (row["information"], row["entropy"]) == ("infonce", "l1"))
    two = next(row for row in paper.paper()["table_2"] if row["score"] == "ori")
    for dataset in ("cifar10", "cifar100"):
        base = paper.row(dataset, "base")
        assert one[dataset] == {"mean": base.mean, "sd": base.sd}
        assert two[dataset] == {"mean": base.mean, "sd": None}


def test_nothing_of_what_it_does_not_print():
    assert paper.row("digits", "base") is None
    assert paper.row("mnist", "surprisal") is None
    assert (paper.methods("digits"), paper.class_count("digits")) == ([], 0)
