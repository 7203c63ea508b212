import pytest
import torch

from normscope.scoring.surprisal import fit_gaussian, gaussian
from normscope.scoring.two_fold import two_fold


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
