import pytest
import torch

from normscope.errors import SettingError
from normscope.networks.wide_resnet import WideResNet


def block(before, after):
    """Two batch norms, two 3×3 convolutions, and the shortcut's 1×1 where the shape changes."""
    return 2 * before + 9 * before * after + 2 * after + 9 * after**2 + (before * after if before != after else 0)


@pytest.mark.parametrize(("width", "depth"), [(64, 10), (16, 16)])
def test_the_parameters_are_those_of_the_closed_form(width, depth):
    w, further = width, (depth - 4) // 6 - 1
    expected = 9 * 3 * 16 + block(16, w) + block(w, 2 * w) + block(2 * w, 4 * w)
    expected += further * (block(w, w) + block(2 * w, 2 * w) + block(4 * w, 4 * w))
    expected += 2 * 4 * w + 4 * w * 72 + 72
    assert sum(p.numel() for p in WideResNet(3, 72, width, depth).parameters()) == expected


@pytest.mark.parametrize("size", [28, 33])
def test_every_size_gives_logits(size):
    logits = WideResNet(3, 5, 16)(torch.rand(2, 3, size, size))
    assert logits.shape == (2, 5)
    assert logits.isfinite().all()


def test_convolutions_start_as_he_has_it_and_the_head_within_its_bound():
    net = WideResNet(3, 72, 64)
    weight = net.blocks[2].conv2.weight
    assert weight.std().item() == pytest.approx((2 / (9 * 256)) ** 0.5, rel=0.01)
    assert 0.99 / 16 < net.head.weight.abs().max() <= 1 / 16
    assert (net.head.bias == 0).all()


@pytest.mark.parametrize("depth", [4, 15])
def test_a_depth_that_is_no_number_of_blocks_is_refused(depth):
    with pytest.raises(SettingError, match="10, 16, 22"):
        WideResNet(3, 4, 16, depth)
