import json
from dataclasses import fields, replace

import pytest

from normscope.benchmark.cell import Cell
from normscope.benchmark.measurement import cell_of

CELL = Cell("digits", "knn", 3, 0, 60.0, {"k": 5, "batch_size": 256})
CHANGES = {"dataset": "mnist", "method": "pca", "normal": 4, "seed": 1, "budget": 61.0, "settings": {"k": 5}}
CHANGES |= {"epochs": 3, "every": 1, "test_images": 100}


def test_a_result_finds_its_cell_again_after_json():
    for cell in (
        CELL,
        replace(CELL, budget=None),
        replace(CELL, settings={"beta": "auto", "scales": [1, 2], "x": 0.1}),
        replace(CELL, **CHANGES),
    ):
        assert cell_of(json.loads(json.dumps(vars(cell)))).key() == cell.key()


@pytest.mark.parametrize("name", [field.name for field in fields(Cell)])
def test_whatever_differs_makes_another_cell(name):
    assert replace(CELL, **{name: CHANGES[name]}).key() != CELL.key()


def test_the_order_of_settings_does_not():
    assert replace(CELL, settings=dict(reversed(CELL.settings.items()))).key() == CELL.key()
