import pytest
import torch

from normscope.scoring.held_out import fold_count, held_out_pair, random_folds, two_fold
from normscope.scoring.surprisal import fit_gaussian, gaussian


def test_no_image_is_among_those_its_reference_was_fitted_to():
    normal = torch.arange(7.0)[:, None]
    seen = two_fold(normal, lambda x: {"x": x}, lambda x, reference: torch.isin(x, reference["x"]).float()[:, 0])
    assert seen.tolist() == [0.0] * 7
    others = two_fold(normal, lambda x: {"x": x}, lambda x, reference: reference["x"].sum().expand(len(x)))
    assert others.tolist() == [9.0, 12.0] * 3 + [9.0]  # 1 + 3 + 5 and 0 + 2 + 4 + 6


def test_two_fold_surprisal_is_that_of_new_images():
    scales = torch.logspace(0, 1, 40)  # so that a covariance must be estimated, and cannot be shrunk to a single number
    normal, new = torch.randn(2, 120, 40, generator=torch.Generator().manual_seed(0)) * scales
    reference = fit_gaussian(normal)
    honest = two_fold(normal, fit_gaussian, gaussian).mean()
    assert gaussian(normal, reference).mean() < gaussian(new, reference).mean() - 3
    assert honest == pytest.approx(float(gaussian(new, reference).mean()), rel=0.05)


def test_maps_keep_their_shape():
    maps = torch.randn(5, 2, 3, 3)
    assert two_fold(maps, lambda x: {}, lambda x, reference: x.mean(1)).shape == (5, 3, 3)


def test_changed_images_are_scored_by_what_did_not_see_the_original():
    torch.manual_seed(0)
    normal, fold = torch.arange(11.0)[:, None], random_folds(11)
    changed, at = normal[[2, 3, 9]] + 100, torch.tensor([2, 3, 9])
    usual, unusual = held_out_pair(
        normal, fold, changed, fold[at], lambda x: {"x": x}, lambda x, r: torch.isin(x % 100, r["x"]).float()[:, 0]
    )
    assert usual.tolist() == [0.0] * 11
    assert unusual.tolist() == [0.0] * 3


def test_few_images_are_in_more_folds_of_equal_sizes(monkeypatch):
    monkeypatch.setattr("normscope.scoring.held_out.MOST", 16)
    assert [fold_count(n) for n in (0, 1, 5, 25, 50, 100, 5000)] == [0, 1, 5, 16, 8, 4, 4]
    torch.manual_seed(0)
    assert random_folds(103).bincount().tolist() == [26, 26, 26, 25]
