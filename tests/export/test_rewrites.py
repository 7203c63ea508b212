import pytest
import torch
import torch.nn.functional as F

from normscope.export.rewrites import Rewrites, cdist, half, searchsorted, split


def random(*shape, dtype=torch.float32):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return torch.randn(*shape, dtype=dtype)


def test_searchsorted_counts_the_knots_below():
    knots, x = random(2, 20).sort(1).values, random(2, 50)
    x[:, :20] = knots  # ties
    assert torch.equal(searchsorted(knots, x), torch.searchsorted(knots, x))


def test_distances_are_those_of_torch():
    a, b = random(30, 7, dtype=torch.float64), random(40, 7, dtype=torch.float64) + 100
    assert torch.allclose(cdist(a, b), torch.cdist(a, b), rtol=1e-12)


def test_half_rounds_as_half_precision_does():
    x = random(1000) * 100
    assert torch.equal(half(x), x.half().float())


def test_a_batch_is_not_split_and_channels_are():
    x = random(8, 6)
    assert len(split(x, 2)) == 1
    assert [one.shape[1] for one in split(x, [2, 4], 1)] == [2, 4]
    assert [one.shape[1] for one in split(x, 3, 1)] == [3, 3]


@pytest.mark.parametrize("size", [(28, 28), (44, 30)])
def test_antialiased_resizing_is_a_matrix_on_either_side(size):
    x, rewrites = random(2, 3, *size), Rewrites()
    with rewrites:
        found = F.interpolate(x, (16, 40), mode="bilinear", align_corners=False, antialias=True)
    wanted = F.interpolate(x, (16, 40), mode="bilinear", align_corners=False, antialias=True)
    assert torch.allclose(found, wanted, atol=1e-6)


def test_what_no_image_takes_part_in_is_computed_once():
    covariance, x = torch.eye(3) * 4 + 0.5, random(3, 5)

    def whitened():
        return torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), x, upper=False) + torch.randn(3, 1)

    rewrites = Rewrites()
    with rewrites:
        first = whitened()
    rewrites.end_recording()
    for _ in range(2):
        with rewrites:
            assert torch.equal(whitened(), first), "the noise would differ"
    noise = rewrites.recorded[-1]
    assert torch.allclose(
        first - noise, torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), x, upper=False)
    )
