import pytest
import torch

from normscope.scoring.held_out import two_fold
from normscope.scoring.local import SHARED, columns, fit_heat, fit_local, heat, local_surprisal, random_channels, smooth
from normscope.training.randomness import seeded


def correlated(n, seed=0):
    """Maps [n, 3, 2, 2] of known covariance, another mean and scale at each location."""
    mix = torch.tensor([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.5, 1.0]])
    x = torch.randn(n, 4, 3, generator=torch.Generator().manual_seed(seed)) @ mix.T
    return (
        ((x * torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None]) + torch.arange(4.0)[:, None])
        .permute(0, 2, 1)
        .view(n, 3, 2, 2)
    )


def test_of_many_images_it_is_the_mahalanobis_distance_of_each_location_and_a_little_of_all():
    normal, new = correlated(20000), correlated(5, seed=1)
    found = local_surprisal(new, fit_local(normal))
    common = torch.stack([torch.cov(x.T) for x in normal.flatten(2).unbind(2)]).mean(0)
    for place in range(4):
        x, own = normal.flatten(2)[..., place], new.flatten(2)[..., place]
        inverse = torch.linalg.inv(torch.cov(x.T) + SHARED * common)
        away = own - x.mean(0)
        assert found.flatten(1)[:, place] == pytest.approx((away @ inverse * away).sum(1) / 3, rel=0.02)


def test_a_normal_image_has_about_one_everywhere():
    found = local_surprisal(correlated(4000, seed=1), fit_local(correlated(4000)))
    assert found.mean((0, 1, 2)) == pytest.approx(0.9, abs=0.03), "locations vary by 1 to 16, and by 0.4 more for all"


def test_where_nothing_varies_a_small_change_is_no_hotter_than_a_large_one_elsewhere():
    maps = torch.randn(400, 3, 1, 2, generator=torch.Generator().manual_seed(0))
    maps[..., 1] *= 1e-3
    new = torch.zeros(2, 3, 1, 2)
    new[0, ..., 1], new[1, ..., 0] = 0.1, 4
    slight, large = local_surprisal(new, fit_local(maps)).flatten(1).amax(1)
    assert slight < large


def test_fewer_images_than_channels_are_enough():
    maps = torch.randn(4, 30, 3, 3, generator=torch.Generator().manual_seed(0))
    found = local_surprisal(maps, fit_local(maps))
    assert torch.isfinite(found).all()
    assert (local_surprisal(maps + 5, fit_local(maps)) > found).all()


def test_maps_that_never_vary_are_no_trouble():
    maps = torch.ones(6, 4, 2, 2)
    found = local_surprisal(maps, fit_local(maps))
    assert (found == 0).all()
    assert (local_surprisal(maps + 1, fit_local(maps)) > 100).all()


def test_the_odd_location_is_found():
    maps = correlated(500)
    odd = correlated(1, seed=2)
    odd[..., 1, 0] += 30
    assert local_surprisal(odd, fit_local(maps)).flatten().argmax() == 2


def test_columns_stand_side_by_side_on_one_grid():
    coarse, fine = torch.tensor([[[[1.0]]]]), torch.arange(16.0).view(1, 1, 4, 4)
    assert columns([fine, coarse], (2, 2)).tolist() == [[[[2.5, 4.5], [10.5, 12.5]], [[1.0, 1.0], [1.0, 1.0]]]]


def test_smoothing_keeps_what_is_flat_and_spreads_what_is_not():
    assert smooth(torch.full((1, 4, 4), 3.0)).unique().tolist() == [3.0]
    peak = torch.zeros(1, 5, 5)
    peak[0, 2, 2] = 9
    assert smooth(peak)[0, 1:4, 1:4].unique().tolist() == [1.0]


def test_one_normal_image_in_a_hundred_is_hotter_than_one_somewhere():
    maps = correlated(1000)
    reference = fit_heat(maps)
    values = smooth(two_fold(maps, fit_local, local_surprisal)).amax((1, 2))
    assert reference["hottest.mean"] == pytest.approx(values.mean().item())
    assert reference["hottest.deviation"] == pytest.approx(values.std().item(), rel=1e-5)
    hot = heat(correlated(3000, seed=1), reference)
    assert hot.shape == (3000, 2, 2)
    share = (hot.amax((1, 2)) > 1).float().mean()
    assert 0 < share < 0.01 + 4 * (0.01 / 1000 + 0.01 / 3000) ** 0.5  # of the quantile and of the share


def test_random_channels_come_in_order_and_none_twice():
    with seeded(0):
        chosen, others = random_channels(100, 20), random_channels(100, 20)
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert len(chosen) == 20
    assert not torch.equal(chosen, others)
    assert random_channels(5).tolist() == [0, 1, 2, 3, 4]
