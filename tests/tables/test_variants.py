import json

import pytest

from normscope.benchmark.measurement import checked
from normscope.errors import DatasetError
from normscope.tables.variants import by_variant, read, variant_of

RESULT = {"dataset": "mnist", "method": "knn", "normal": 3, "seed": 0, "budget": 60, "settings": {"k": 5, "a": 1}}
RESULT |= {"metrics": {"auroc": 0.9}, "health": "ok", "error": None}


def measured(**changes):
    return checked({**RESULT, **changes}, "here")


def test_what_makes_another_variant_and_what_does_not():
    for same in ({"settings": {"a": 1, "k": 5}}, {"every": 5}, {"normal": 1}, {"seed": 1}, {"dataset": "digits"}):
        assert variant_of(measured(**same).cell) == variant_of(measured().cell)
    for other in ({"method": "pca"}, {"settings": {"k": 5}}, {"budget": None}, {"epochs": 1}, {"test_images": 9}):
        assert variant_of(measured(**other).cell) != variant_of(measured().cell)


def test_by_variant_and_class():
    one, two, three, four = measured(), measured(seed=1), measured(normal=4), measured(settings={})
    assert list(by_variant([one, two, three, four]).values()) == [{3: [one, two], 4: [three]}, {3: [four]}]


def test_of_a_variant_in_two_files_the_last_is_taken(tmp_path):
    def write(name, *results):
        (tmp_path / name).write_text("".join(json.dumps(result) + "\n" for result in results))
        return tmp_path / name

    one = write("a", RESULT, {**RESULT, "seed": 1}, {**RESULT, "every": 5, "metrics": {"auroc": 0.7}})
    other = write("b", {**RESULT, "metrics": {"auroc": 0.5}})
    assert [(m.cell.seed, m.value("auroc")) for m in read([one])] == [(1, 0.9), (0, 0.7)]
    assert [(m.cell.seed, m.value("auroc")) for m in read([one, other])] == [(1, 0.9), (0, 0.5)]


def test_no_file(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(DatasetError, match="is no file; give one that `normscope bench` wrote"):
            read([path])
