import numpy as np
import torch

from normscope.scoring import defect_maps
from normscope.scoring.defects import Rows
from normscope.scoring.layout import Layout

N, TIMES = 10, 2


class Numbers:
    """Stands in for batches: of some images, their numbers."""

    def subset(self, indices):
        return indices


def seen_by(rows, choices):
    """Stands in for the heads of each choice: which images they have seen, [n]."""
    return [{"seen": torch.zeros(N).index_fill(0, torch.tensor(images % N), 1)} for images in choices]


def whether_they_saw(images, surprisal, heads, layout):
    return heads["seen"][images, None, None].expand(-1, *layout.finest)


def test_each_image_is_judged_by_heads_that_did_not_see_it_and_new_ones_by_heads_that_saw_all(monkeypatch):
    rows = Rows([torch.zeros(1, 2)] * N * TIMES, [torch.ones(1, 2)] * N * TIMES, np.arange(N * TIMES) % 2)
    monkeypatch.setattr(defect_maps, "rows_of", lambda pairs, layout: rows)
    monkeypatch.setattr(defect_maps, "fit_heads", seen_by)
    monkeypatch.setattr(defect_maps, "defect_maps", whether_they_saw)
    pairs = defect_maps.Pairs(Numbers(), torch.zeros(N, 4, 4), Numbers(), torch.zeros(N * TIMES, 4, 4), TIMES)
    fitted = defect_maps.fit_defects(pairs, Layout(1, (torch.Size([2, 4, 4]),)))
    assert fitted.normal.shape == (N, 4, 4)
    assert (fitted.normal == 0).all()
    assert (fitted.reference["seen"] == 1).all()
