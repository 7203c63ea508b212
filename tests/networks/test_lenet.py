import pytest
import torch
from torch import nn

from normscope.errors import SettingError
from normscope.networks.lenet import Decoder, Encoder, layers


def images(n, size, seed=0):
    return torch.rand(n, 3, size, size, generator=torch.Generator().manual_seed(seed)) * 2 - 1


@pytest.mark.parametrize(
    ("network", "size", "convolutions", "hidden", "code"),
    [
        ("mnist", 28, (8, 4), None, 32),
        ("fashion-mnist", 28, (16, 32), 128, 64),
        ("cifar10", 32, (32, 64, 128), None, 128),
        ("auto", 28, (16, 32), 128, 64),
        ("auto", 32, (32, 64, 128), None, 128),
    ],
)
def test_the_published_networks(network, size, convolutions, hidden, code):
    assert layers(network, 32, size) == (convolutions, hidden, code)


def test_the_parameters_are_those_of_the_published_cifar_network():
    net = Encoder(layers("cifar10", 32, 32), 3, 32)
    expected = 25 * (3 * 32 + 32 * 64 + 64 * 128) + 128 * 4 * 4 * 128
    assert sum(p.numel() for p in net.parameters()) == expected


def test_batch_norms_are_the_published_ones_and_the_decoder_doubles_the_side():
    parts = layers("fashion-mnist", 32, 28)
    back = Decoder(parts, 3, 28)
    norms = [part for net in (Encoder(parts, 3, 28), back) for part in net.modules() if hasattr(part, "running_var")]
    assert [(norm.eps, norm.affine) for norm in norms] == [(1e-4, False)] * 6
    assert back.sides == [7, 14, 28]


@pytest.mark.parametrize(
    ("network", "size"), [("mnist", 28), ("mnist", 45), ("fashion-mnist", 32), ("cifar10", 45), ("cifar10", 64)]
)
def test_every_network_takes_every_size_and_gives_it_back(network, size):
    net = layers(network, 16, size)
    code = Encoder(net, 3, size)(images(3, size))
    assert code.shape == (3, net.code)
    restored = Decoder(net, 3, size)(code)
    assert restored.shape == (3, 3, size, size)
    assert 0 <= restored.min() < restored.max() <= 1


@pytest.mark.parametrize("network", ["mnist", "fashion-mnist", "cifar10"])
def test_weights_of_nought_can_only_give_a_code_of_nought(network):
    """The rules against collapse: no bias, no affine batch norm, no bounded activation."""
    net = Encoder(layers(network, 16, 28), 3, 28)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    assert torch.equal(net(images(4, 28)), torch.zeros(4, layers(network, 16, 28).code))
    assert not any(isinstance(part, nn.Tanh | nn.Sigmoid) for part in net.modules())


@pytest.mark.parametrize("width", [0, 20])
def test_a_width_that_the_decoder_cannot_share_out_is_refused(width):
    with pytest.raises(SettingError, match="multiple of 16"):
        layers("auto", width, 32)
