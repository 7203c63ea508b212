import pytest
import torch
from normscope.scoring.held_out import held_out

from normscope.scoring.surprisal import fit_gaussian, gaussian


def test_no_image_is_among_those_its_reference_was_fitted_to():
    normal = torch.arange(7.0)[:, None]
    seen = held_out(normal, lambda x: {"x": x}, lambda x, memory: torch.isin(x, memory["x"]).float()[:, 0])
    assert seen.tolist() == [0.0] * 7
    others = held_out(normal, lambda x: {"x": x}, lambda x, memory: memory["x"].sum().expand(len(x)))
    assert others.tolist() == [9.0, 12.0] * 3 + [9.0]  # 1 + 3 + 5 and 0 + 2 + 4 + 6


def test_new_images_look_like_the_held_out_ones_and_not_like_those_fitted_to():
    scales = torch.logspace(0, 1, 40)  # so that a covariance must be estimated, and cannot be shrunk to a single number
    normal, new = torch.randn(2, 120, 40, generator=torch.Generator().manual_seed(0)) * scales
    reference = fit_gaussian(normal)
    honest = held_out(normal, fit_gaussian, gaussian).mean()
    assert gaussian(normal, reference).mean() < gaussian(new, reference).mean() - 3
    assert honest == pytest.approx(float(gaussian(new, reference).mean()), rel=0.05)


def test_maps_keep_their_shape():
    maps = torch.randn(5, 2, 3, 3)
    assert held_out(maps, lambda x: {}, lambda x, memory: x.mean(1)).shape == (5, 3, 3)
