import pytest
import torch

from normscope.scoring.neighbours import MOST_COMPONENTS, fit_neighbours, neighbour_distance, neighbours


def codes(n, d=6, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def brute_force(codes, normal, k):
    scores = []
    for code in codes:
        distances = sorted(
            sum((float(a) - float(b)) ** 2 for a, b in zip(code, other, strict=True)) ** 0.5 for other in normal
        )
        near = distances[:k]
        scores.append(sum(near) / len(near))
    return torch.tensor(scores, dtype=torch.float64)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (20, 5), (3, 100)])
def test_score_is_the_mean_distance_to_the_k_nearest_or_to_all_if_fewer(n, k):
    new, normal = codes(n, seed=1), codes(60)
    torch.testing.assert_close(neighbours(new, normal, k), brute_force(new, normal, k))


def test_a_single_normal_code_is_enough():
    (only,) = normal = codes(1)
    assert neighbours(normal, normal, 5) == 0
    assert neighbours(only[None] + 1, normal, 5) == pytest.approx(6**0.5)


def test_duplicates_count_once_each():
    normal = torch.tensor([[0.0], [0.0], [0.0], [9.0]])
    assert neighbours(torch.tensor([[1.0]]), normal, 3).item() == pytest.approx(1)
    assert neighbours(torch.tensor([[1.0]]), normal, 4).item() == pytest.approx((1 + 1 + 1 + 8) / 4)


def test_more_codes_than_are_compared_at_a_time():
    new, normal = codes(1030, seed=1), codes(4)
    torch.testing.assert_close(neighbours(new, normal, 3), brute_force(new, normal, 3))


def test_distances_are_exact_where_float32_would_cancel():
    """Codes a thousandth apart and a thousand from the origin, so many that distances come from a product."""
    normal = 1000 + 0.001 * torch.arange(64.0, dtype=torch.float64)[:, None].repeat(1, 4)
    new = normal.float()
    found = neighbours(new, new, 2)
    expected = brute_force(new, new, 2).float()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=0)


def test_score_does_not_depend_on_the_batch():
    new, normal = codes(40, seed=1).float(), codes(60).float()
    alone = torch.cat([neighbours(code[None], normal, 5) for code in new])
    torch.testing.assert_close(alone, neighbours(new, normal, 5), rtol=1e-6, atol=0)


def test_distances_are_half_way_to_mahalanobis():
    """Along an axis of standard deviation s a distance of 1 counts for 1 / √s."""
    deviation = torch.tensor([9.0, 4.0, 1.0])
    normal = codes(4000, 3).float() * deviation
    reference = fit_neighbours(normal)
    far = 1000 * torch.eye(3)  # from where all normal ones are at about the same place
    torch.testing.assert_close(neighbour_distance(far, reference), 1000 / deviation.sqrt(), rtol=0.05, atol=0)


@pytest.mark.parametrize(("n", "d", "kept"), [(1, 4, 1), (2, 4, 1), (40, 4, 4), (600, 400, MOST_COMPONENTS)])
def test_as_many_components_as_features_determine(n, d, kept):
    features = codes(n, d).float()
    reference = fit_neighbours(features)
    assert reference["basis"].shape == (d, kept)
    assert neighbour_distance(features, reference).isfinite().all()


def test_features_that_do_not_vary_are_no_distance_apart():
    same = torch.ones(20, 5)
    reference = fit_neighbours(same)
    assert neighbour_distance(same, reference).abs().max() == 0
    assert neighbour_distance(2 * same, reference).isfinite().all()
