import pytest
import torch

from normscope.scoring.held_out import MANY, fold_count, held_out_pair, random_folds, two_fold
from normscope.scoring.local import fit_local, left_out_surprisal, local_surprisal
from normscope.scoring.surprisal import fit_gaussian, gaussian, left_out_gaussian

GAUSSIAN, LOCAL = (fit_gaussian, gaussian, left_out_gaussian), (fit_local, local_surprisal, left_out_surprisal)


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


@pytest.mark.parametrize("n", [11, MANY])
def test_changed_images_are_scored_by_what_did_not_see_the_original(n):
    torch.manual_seed(0)
    normal, origin = torch.arange(float(n))[:, None], torch.tensor([9, 2, 3])
    reference, usual, unusual = held_out_pair(
        normal,
        normal[origin] + 1000,
        origin,
        lambda x: {"x": x},
        lambda x, r: torch.isin(x % 1000, r["x"]).float()[:, 0],
        lambda x, own, normal, r: torch.tensor([float(i in normal[torch.arange(n) != i]) for i in own]),
    )
    assert torch.equal(reference["x"], normal)
    assert usual.tolist() == [0.0] * n
    assert unusual.tolist() == [0.0] * 3


def correlated(n, c):
    """Maps [n, c, 10, 10] of correlated channels, some locations of which vary more than others."""
    generator = torch.Generator().manual_seed(n)
    mixing = torch.eye(c) + torch.randn(c, c, generator=generator) / c**0.5
    scale = torch.linspace(0.5, 2, 100).view(10, 10)
    return 3 + scale * torch.einsum("nchw,dc->ndhw", torch.randn(n, c, 10, 10, generator=generator), mixing)


@pytest.mark.parametrize(("n", "c"), [(120, 40), (100, 130)])
@pytest.mark.parametrize("part", ["code", "locations"])
def test_leaving_one_out_is_as_fitting_to_all_others(part, n, c):
    maps = correlated(n, c)
    normal, (fit, score, left_out) = (maps, LOCAL) if part == "locations" else (maps.flatten(1)[:, :300], GAUSSIAN)
    changed, origin = normal[[7, 7, 3]] * 1.2 - 1, torch.tensor([7, 7, 3])
    reference, others = fit(normal), {i: fit(normal[torch.arange(n) != i]) for i in (3, 7)}
    wanted = torch.cat([score(one[None], others[i]) for one, i in zip(changed, origin.tolist(), strict=True)])
    torch.testing.assert_close(left_out(changed, origin, normal, reference), wanted, rtol=0.02, atol=0)
    itself = left_out(normal, torch.arange(n), normal, reference)[[3, 7]]
    wanted = torch.cat([score(normal[i, None], others[i]) for i in (3, 7)])
    torch.testing.assert_close(itself.mean(), wanted.mean(), rtol=0.02, atol=0)
    seen = score(normal[[3, 7]], reference)
    assert (seen - wanted).abs().mean() > 10 * (itself - wanted).abs().mean()


@pytest.mark.parametrize("part", ["code", "locations"])
def test_what_is_far_from_all_others_stays_so_when_it_is_left_out(part):
    maps = correlated(MANY, 20)
    maps[3] += 1000 * torch.randn(maps[3].shape, generator=torch.Generator().manual_seed(0))
    normal, functions = (maps, LOCAL) if part == "locations" else (maps.flatten(1)[:, :300], GAUSSIAN)
    _, usual, changed = held_out_pair(normal, normal[[3]] * 0.9, torch.tensor([3]), *functions)
    others = usual[torch.arange(MANY) != 3]
    assert usual.isfinite().all()
    assert (usual[3] > 3 * others.amax(0)).all()
    assert (changed[0] > 3 * others.amax(0)).all()


def test_few_images_are_in_more_folds_of_equal_sizes(monkeypatch):
    monkeypatch.setattr("normscope.scoring.held_out.MOST", 16)
    assert [fold_count(n) for n in (0, 1, 5, 25, 100, 200, 400, 5000)] == [0, 1, 5, 16, 16, 8, 4, 4]
    torch.manual_seed(0)
    assert random_folds(403).bincount().tolist() == [101, 101, 101, 100]
