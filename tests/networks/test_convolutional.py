import pytest
import torch
from torch import nn

from normscope.networks.convolutional import decoder, encoder, halvings


def images(n, size, seed=0):
    return 2 * torch.rand(n, 3, size, size, generator=torch.Generator().manual_seed(seed)) - 1


def convolutions(net, kind):
    return [(layer.in_channels, layer.out_channels) for layer in net if isinstance(layer, kind)]


def test_at_32_pixels_it_is_the_published_network():
    with torch.device("meta"):  # shapes only, no memory
        there, back = encoder(3, 64, 32, 256), decoder(3, 64, 32, 256)
    assert convolutions(there, nn.Conv2d) == [(3, 64), (64, 128), (128, 256)]
    assert all(layer.bias is None for layer in there if isinstance(layer, nn.Conv2d))
    assert (there[-1].in_features, there[-1].out_features) == (4 * 4 * 256, 256)
    assert (back[0].in_features, back[0].out_features) == (256, 4 * 4 * 256)
    assert convolutions(back, nn.ConvTranspose2d) == [(256, 128), (128, 64), (64, 3)]


def test_64_pixels_get_one_layer_more_and_128_another_as_wide():
    with torch.device("meta"):
        there, back = encoder(3, 64, 128, 8), decoder(3, 64, 64, 8)
    assert convolutions(there, nn.Conv2d)[3:] == [(256, 512), (512, 512)]
    assert convolutions(back, nn.ConvTranspose2d) == [(256, 128), (128, 64), (64, 64), (64, 3)]


@pytest.mark.parametrize(
    ("size", "sides"),
    [(28, [28, 14, 7, 4]), (32, [32, 16, 8, 4]), (33, [33, 17, 9, 5, 3]), (64, [64, 32, 16, 8, 4])],
)
def test_images_are_halved_to_four_pixels_or_less(size, sides):
    assert halvings(size) == sides
    maps = [images(1, size)]
    for layer in encoder(3, 8, size, 5):
        maps.append(layer(maps[-1]))
    assert [m.shape[-1] for m in maps if m.dim() == 4][::3] == sides


@pytest.mark.parametrize("size", [28, 31, 33, 50, 64, 256])
def test_the_decoder_gives_back_the_size(size):
    with torch.no_grad():
        z = encoder(3, 8, size, 5)(images(2, size))
        x = decoder(3, 8, size, 5)(z)
    assert z.shape == (2, 5)
    assert x.shape == (2, 3, size, size)
    assert x.abs().max() <= 1


def test_codes_have_either_sign():
    z = encoder(3, 8, 28, 16)(images(8, 28))
    assert z.min() < 0 < z.max()


def test_gradients_reach_every_parameter():
    net = nn.Sequential(encoder(3, 8, 33, 5), decoder(3, 8, 33, 5))
    (net(images(8, 33)) - images(8, 33)).square().mean().backward()
    assert [name for name, p in net.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


def test_in_eval_mode_an_image_is_alone():
    net = nn.Sequential(encoder(3, 8, 28, 5), decoder(3, 8, 28, 5))
    net(images(8, 28, seed=1))  # so that running statistics are not the initial ones
    net.eval()
    x = images(6, 28)
    with torch.no_grad():
        torch.testing.assert_close(torch.cat([net(image[None]) for image in x]), net(x), atol=1e-5, rtol=1e-4)
