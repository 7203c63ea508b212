import math

import pytest
import torch
from torch import nn

from normscope.networks.dcgan import Encoder, Generator, mistaken, normal_weights, plan


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def maps(network: nn.Module, given: torch.Tensor, kind: type[nn.Module]) -> list[tuple[int, ...]]:
    seen: list[tuple[int, ...]] = []
    for layer in network.modules():
        if isinstance(layer, kind):
            layer.register_forward_hook(lambda _, __, output: seen.append(tuple(output.shape[1:])))
    network(given)
    return seen


def test_the_layers_for_32_pixels_are_those_of_the_published_table():
    down = maps(Encoder(3, 32, 64, 100), torch.zeros(2, 3, 32, 32), nn.Conv2d)
    assert down == [(64, 16, 16), (128, 8, 8), (256, 4, 4)]
    up = maps(Generator(100, 3, 32, 64), torch.zeros(2, 100), nn.ConvTranspose2d)
    assert up == [(128, 8, 8), (64, 16, 16), (3, 32, 32)]


def test_parameters_are_those_of_the_published_table():
    convolutions = 16 * (3 * 64 + 64 * 128 + 128 * 256)
    batch_norm = 2 * (128 + 256)  # none after the first
    assert parameters(Encoder(3, 32, 64, 100)) == convolutions + batch_norm + 4096 * 100 + 100
    assert parameters(Generator(100, 3, 32, 64)) == convolutions + batch_norm + 2 * 64 + 4096 * 100
    three = 9 * (3 * 64 + 64 * 128 + 128 * 256) + 2 * (64 + 128 + 256)
    assert parameters(Encoder(3, 32, 64, 1, kernel=3, norm_first=True)) == three + 4097
    assert parameters(Generator(256, 3, 32, 64, kernel=3)) == three + 4096 * 256


@pytest.mark.parametrize(
    ("size", "halvings", "side"),
    [(28, 3, 32), (32, 3, 32), (33, 4, 48), (49, 4, 64), (64, 4, 64), (128, 5, 128)],
)
def test_a_size_is_enlarged_to_the_next_that_can_be_halved(size, halvings, side):
    assert plan(size) == (halvings, side)


@pytest.mark.parametrize(("size", "kernel"), [(28, 3), (31, 4), (40, 4), (64, 3)])
def test_any_size_goes_in_and_comes_out(size, kernel):
    encoder, generator = Encoder(3, size, 8, 5, kernel=kernel), Generator(5, 3, size, 8, kernel=kernel)
    made = generator(torch.randn(2, 5))
    assert made.shape == (2, 3, size, size)
    assert made.abs().max() <= 1
    assert encoder(made).shape == (2, 5)
    assert encoder.features(made).shape == (2, encoder.head.in_features)


@pytest.mark.parametrize("size", [29, 45])
def test_every_pixel_has_a_say(size):
    x = torch.rand(2, 3, size, size, requires_grad=True)
    Encoder(3, size, 8, 4).eval()(x).square().sum().backward()
    assert (x.grad.abs().amax((0, 1)) > 0).all()


def test_a_smaller_image_sits_in_the_middle_of_a_black_frame():
    small, large = Encoder(3, 28, 8, 4).eval(), Encoder(3, 32, 8, 4).eval()
    large.load_state_dict(small.state_dict())
    x = torch.rand(2, 3, 28, 28)
    framed = torch.full((2, 3, 32, 32), -1.0)
    framed[:, :, 2:30, 2:30] = x
    assert torch.equal(small(x), large(framed))


def test_a_smaller_image_is_cut_from_the_middle():
    small, large = Generator(5, 3, 28, 8).eval(), Generator(5, 3, 32, 8).eval()
    large.load_state_dict(small.state_dict())
    z = torch.randn(2, 5)
    assert torch.equal(small(z), large(z)[:, :, 2:30, 2:30])


def test_dropout_is_for_training_only():
    generator = Generator(5, 3, 28, 8, dropout=0.5)
    z = torch.randn(8, 5)
    assert not torch.equal(generator(z), generator(z))
    generator.eval()
    assert torch.equal(generator(z), generator(z))


def test_weights_are_drawn_with_the_deviation():
    encoder = Encoder(3, 32, 32, 10)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.fill_(7.0)
    normal_weights(encoder, 0.05)
    convolution, norm = encoder.body[2], encoder.body[3]
    assert convolution.weight.std().item() == pytest.approx(0.05, rel=0.03)  # 32,768 draws
    assert abs(norm.weight.mean().item() - 1) < 0.02
    assert norm.weight.std().item() < 0.04
    assert not norm.bias.any()
    assert not encoder.head.bias.any()


def test_mistakes_are_cross_entropies():
    assert mistaken(torch.zeros(3, 1), 1.0).item() == pytest.approx(math.log(2))
    assert mistaken(torch.full((3, 1), 2.0), 1.0).item() == pytest.approx(math.log(1 + math.exp(-2)))
    assert mistaken(torch.full((3, 1), 2.0), 0.0).item() == pytest.approx(2 + math.log(1 + math.exp(-2)))
