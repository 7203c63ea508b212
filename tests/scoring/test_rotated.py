import math

import pytest
import torch

from normscope.scoring.rotated import fit_rotated, rotated_surprisal


def normal(n, *, seed):
    """[n, 2, 3]: two rotations whose features have other means and scales."""
    x = torch.randn(n, 2, 3, generator=torch.Generator().manual_seed(seed))
    return x * torch.tensor([1.0, 5.0])[:, None] + torch.tensor([0.0, 40.0])[:, None]


def test_normal_images_are_about_zero_and_one_deviation_apart():
    scores = rotated_surprisal(normal(4000, seed=1), fit_rotated(normal(4000, seed=0)))
    # Half a χ² of 3 degrees in each of two independent rotations, standardised: their mean has the deviation 1/√2.
    assert scores.mean().item() == pytest.approx(0, abs=4 / math.sqrt(2 * 4000))
    assert scores.std().item() == pytest.approx(math.sqrt(0.5), rel=0.08)


def test_an_image_is_judged_in_each_rotation_by_its_own_gaussian():
    reference = fit_rotated(normal(500, seed=0))
    usual = torch.tensor([[0.0, 0.0, 0.0], [40.0, 40.0, 40.0]])
    odd = [usual.clone(), usual.clone()]
    odd[0][0] += 5  # five deviations of the first rotation
    odd[1][1] += 5  # one of the second
    scores = rotated_surprisal(torch.stack([usual, *odd]), reference)
    assert scores[0] < scores[2] < scores[1]
    # Half of 3·5² nats, in deviations of half a χ² of 3 degrees (√1.5 nats), one rotation of two.
    assert (scores[1] - scores[0]).item() == pytest.approx(37.5 / math.sqrt(1.5) / 2, rel=0.15)
