import pytest
import torch

from normscope.views.contrast import UNSEEN, contrast_normalised, stretched, widened


def images(n, seed=0):
    return torch.rand(n, 3, 28, 28, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def test_contrast_is_mean_nought_and_mean_absolute_value_one():
    x = contrast_normalised(images(3) * torch.tensor([0.01, 0.3, 1.0])[:, None, None, None] + 0.2)
    torch.testing.assert_close(x.mean((1, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.abs().mean((1, 2, 3)), torch.ones(3))


def test_a_blank_image_stays_blank():
    grey = torch.full((1, 3, 29, 29), 0.1)
    assert contrast_normalised(grey).abs().max() < 1e-3


def test_extremes_are_those_of_all_images_whichever_come_first():
    first, second = images(4, seed=1), images(4, seed=2)
    unseen = torch.tensor(UNSEEN)
    extremes = widened(widened(unseen, first), second)
    assert torch.equal(extremes, widened(widened(unseen, second), first))
    assert extremes.tolist() == [x.item() for x in contrast_normalised(torch.cat([first, second])).aminmax()]
    assert torch.equal(widened(extremes, first), extremes)
    assert unseen.tolist() == list(UNSEEN)


def test_images_that_were_seen_fill_the_range_and_others_may_go_beyond():
    seen = images(8)
    extremes = widened(torch.tensor(UNSEEN), seen)
    x = stretched(seen, extremes)
    assert x.min() == pytest.approx(0, abs=1e-6)
    assert x.max() == pytest.approx(1, abs=1e-6)
    spot = torch.zeros(1, 3, 28, 28)
    spot[0, :, 0, 0] = 1
    assert stretched(spot, extremes).max() > 10  # one bright pixel is far beyond uniform noise


def test_before_any_image_was_seen_the_result_is_finite():
    assert stretched(images(2), torch.tensor(UNSEEN)).isfinite().all()
