import json

import pytest


@pytest.fixture
def rows(tmp_path):
    """A file of knn's AUROC for each (class, seed)."""

    def write(name: str, values: dict[tuple[int, int], float], method: str = "knn", more=(), **fields: object):
        lines = [
            {"dataset": "digits", "method": method, "settings": {}, "normal": normal, "seed": seed, "budget": None}
            | {"metrics": {"auroc": value, "fpr95": 1 - value}, "health": "ok", "error": None, **fields}
            for (normal, seed), value in values.items()
        ]
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]))
        return tmp_path / name

    return write


def test_what_changed_and_whether_seeds_could_have_done_it(run, rows):
    before = rows("a", {(0, 0): 0.80, (0, 1): 0.82, (1, 0): 0.70, (1, 1): 0.72, (2, 0): 0.5})
    after = rows("b", {(0, 0): 0.90, (0, 1): 0.92, (1, 0): 0.71, (1, 1): 0.73})
    code, out, err = run("compare", before, after)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "digits knn: +5.50 over 2 classes, exceeds the seeds (SD over seeds 1.41, 4 degrees of freedom)",
        "  class 0: 81.00 → 91.00, +10.00, exceeds the seeds",
        "  class 1: 71.00 → 72.00, +1.00, within the seeds",
        "all: auroc +5.50 per cent (higher is better) over 2 cells, 2 up, 0 down, 0 equal; "
        "fewer than 6 differ, too few to test",
        "cells in one file only: 1 before, 0 after",
    ]


def test_one_seed_says_so_and_tells_of_the_images_instead(run, rows):
    before = rows("a", {(0, 0): 0.80}, intervals={"auroc": [0.78, 0.82]})
    after = rows("b", {(0, 0): 0.90}, intervals={"auroc": [0.88, 0.92]})
    out = run("compare", before, after).out.splitlines()
    assert out[0] == "digits knn: +10.00 over 1 class, unknown: one seed each"
    assert out[1].endswith("one seed each; test-set intervals apart (noise of images, not of seeds)")
    assert out[1].startswith("  class 0: 80.00 → 90.00, +10.00, unknown")


def test_many_cells_are_tested(run, rows):
    before = rows("a", {(normal, 0): 0.8 for normal in range(10)})
    after = rows("b", {(normal, 0): 0.81 + normal / 100 for normal in range(10)})
    assert "10 up, 0 down, 0 equal; Wilcoxon p = 0.002" in run("compare", before, after).out
    assert "fpr95 -5.50 per cent (lower is better)" in run("compare", before, after, "--metric", "fpr95").out


def test_json(run, rows):
    before = rows("a", {(0, 0): 0.8, (0, 1): 0.8, (1, 0): 0.5})
    found = json.loads(run("compare", before, rows("b", {(0, 0): 0.9, (0, 1): 0.9}), "--json").out)
    assert (found["metric"], found["up"], found["down"], found["wilcoxon_p"]) == ("auroc", 1, 0, None)
    assert (found["only_before"], found["only_after"], found["difference"]) == (1, 0, pytest.approx(10))
    (one,) = found["comparisons"]
    assert (one["dataset"], one["method"], one["verdict"]) == ("digits", "knn", "exceeds the seeds")
    assert one["cells"][0]["before"] == [80, 80]


def test_nothing_in_common(run, rows):
    out = run("compare", rows("a", {(0, 0): 0.8}), rows("b", {(1, 0): 0.8})).out
    assert out == "no cell is in both files\ncells in one file only: 1 before, 1 after\n"


def test_methods_can_be_chosen(run, refused, rows):
    variants = [json.loads(rows("x", {(0, 0): 0.5}, "pca", settings={"d": d}).read_text()) for d in (1, 2)]
    before = rows("a", {(0, 0): 0.8}, more=variants)
    after = rows("b", {(0, 0): 0.9}, more=[{**variants[0], "settings": {"d": 3}}])
    assert "pca on digits has 2 variants before and 1 after, and none is the same" in refused("compare", before, after)
    assert run("compare", before, after, "--method", "knn").out.startswith("digits knn: +10.00")
    assert f"{before} has no result of 'ocsvm'; choose from knn, pca" in refused(
        "compare", before, after, "--method", "ocsvm"
    )


def test_wrong_use(refused, rows, tmp_path):
    path = rows("a", {(0, 0): 0.8})
    assert "nothing is no file" in refused("compare", path, tmp_path / "nothing")
    assert "missing argument" in refused("compare", path)
    assert "line 1 has no metric 'f1'" in refused("compare", path, path, "--metric", "f1")
