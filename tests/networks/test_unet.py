import pytest
import torch

from normscope.networks.unet import UNet


@pytest.mark.parametrize("size", [32, 45])
def test_every_size_comes_back(size):
    restored = UNet(1, 3, 8)(torch.rand(2, 1, size, size))
    assert restored.shape == (2, 3, size, size)
    assert restored.abs().max() <= 1


def test_the_channels_of_every_scale():
    with torch.device("meta"):  # shapes only, no memory
        net = UNet(1, 3)
    assert [block[0][0].out_channels for block in (net.first, *net.down)] == [64, 128, 256, 512, 512]
    assert [block[0][0].in_channels for block in net.up] == [1024, 512, 256, 128]
    assert [block[0][0].out_channels for block in net.up] == [256, 128, 64, 64]
    assert net.last.bias is None


def test_gradients_reach_every_parameter():
    net = UNet(1, 3, 8)
    net(torch.rand(4, 1, 32, 32)).square().sum().backward()
    assert [name for name, p in net.named_parameters() if not p.grad.abs().sum() > 0] == []


def test_a_change_is_felt_where_it_is_through_the_first_skip():
    net = UNet(1, 1, 8).eval()
    x = torch.rand(1, 1, 32, 32)
    changed = x.clone()
    changed[0, 0, 10, 10] += 1
    difference = (net(x) - net(changed)).abs()[0, 0]
    assert difference[8:13, 8:13].mean() > 5 * difference[24:, 24:].mean()
