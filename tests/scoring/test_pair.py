from math import tanh

import pytest
import torch

from normscope.scoring.pair import fingerprint, pair
from normscope.training.randomness import seeded
from normscope.views.augment import Recipe, random_view

RECIPE, SCALE = Recipe(), 4.0


def images(n, seed=0):
    return 2 * torch.rand(n, 3, 16, 16, generator=torch.Generator().manual_seed(seed)) - 1


def encode(x):
    """Not linear, so that views of one image differ in more than a factor."""
    weight = torch.randn(3 * 16 * 16, 8, generator=torch.Generator().manual_seed(9)) / 16
    return (x.flatten(1) @ weight).tanh()


def score(x, pairs, seed=0):
    return pair(encode, x, RECIPE, SCALE, pairs, seed)


@pytest.mark.parametrize("pairs", [1, 7])
def test_score_is_the_negated_sum_of_clipped_similarities_over_pairs_of_views(pairs):
    x = images(3)
    for image, found in zip(x, score(x, pairs, seed=5), strict=True):
        with seeded(5, fingerprint(image)):
            z = encode(random_view(image[None].repeat(2 * pairs, 1, 1, 1), RECIPE))
        expected = sum(20 * tanh(float(z[i] @ z[i + pairs]) / (SCALE * 20)) for i in range(pairs))
        assert found == pytest.approx(-expected, rel=1e-4, abs=1e-5)


def test_the_two_views_of_a_pair_differ():
    seen = []
    pair(lambda views: seen.append(views) or encode(views), images(2), RECIPE, SCALE, 3, seed=0)
    for views in seen:
        assert len(views) == 6
        assert all(not torch.allclose(views[i], views[j]) for i in range(6) for j in range(i))


def test_the_seed_decides_the_score():
    x = images(4)
    assert torch.equal(score(x, 3, seed=1), score(x, 3, seed=1))
    assert not torch.allclose(score(x, 3, seed=1), score(x, 3, seed=2))


def test_the_batch_does_not_matter():
    x = images(5)
    together = score(x, 4)
    alone = torch.cat([score(image[None], 4) for image in x])
    assert torch.equal(together, alone)
    assert torch.equal(score(x.flip(0), 4).flip(0), together)


def test_the_callers_generator_is_left_alone():
    before = torch.get_rng_state()
    first = score(images(2), 2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)  # what the caller draws does not matter either
    assert torch.equal(score(images(2), 2), first)


def test_codes_that_agree_between_views_are_the_normal_ones():
    def steady(x):
        return torch.ones(len(x), 8)

    def fickle(x):
        return torch.ones(len(x), 8) * torch.tensor([1.0, -1.0]).repeat_interleave(len(x) // 2)[:, None]

    x = images(2)
    assert (pair(steady, x, RECIPE, SCALE, 3, 0) < pair(fickle, x, RECIPE, SCALE, 3, 0)).all()


def test_every_image_has_views_of_its_own():
    """Were they shared, a lucky draw would lift or lower all scores of a test at once."""
    seen = []
    image = images(1)
    pair(
        lambda views: seen.append(views) or encode(views), torch.cat([image, image, images(2)[1:]]), RECIPE, SCALE, 2, 0
    )
    assert torch.equal(seen[0], seen[1])
    assert not torch.allclose(seen[0] - seen[0].mean(), seen[2] - seen[2].mean())


def test_without_the_clip_similarities_are_only_scaled():
    x = images(2)
    clipped, plain = (pair(lambda views: 9 * encode(views), x, RECIPE, SCALE, 3, 0, clip) for clip in (True, False))
    assert not torch.allclose(clipped, plain, rtol=0.01)
    small = [pair(lambda views: 0.01 * encode(views), x, RECIPE, SCALE, 3, 0, clip) for clip in (True, False)]
    torch.testing.assert_close(*small, rtol=1e-3, atol=1e-7)
