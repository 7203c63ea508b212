"""The small convolutional encoder and decoder in which Golan & El-Yaniv 2018 (GeoTrans) ran other methods."""

from itertools import pairwise

from torch import nn


def encoder(channels: int, width: int, size: int, code: int) -> nn.Sequential:
    """Images [n, c, size, size] → linear codes [n, code]; any activation of the code is the method's.

    3×3 convolutions of stride 2 with `width`, 2·width, 4·width and (above 32 pixels) 8·width channels halve the image
    until at most 4 pixels a side are left. Published: width 64, 32 or 64 pixels. 28 pixels become 14, 7, 4, where the
    published code pads the image to 32; larger images than 64 get more layers, of 8·width channels.
    """
    sides = halvings(size)
    widths = [channels, *(width * 2 ** min(layer, 3) for layer in range(len(sides) - 1))]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(widths[-1] * sides[-1] ** 2, code))


def decoder(channels: int, width: int, size: int, code: int) -> nn.Sequential:
    """Codes [n, code] → images [n, c, size, size] in [-1, 1].

    The way back: dense to 4·width maps, then 3×3 transposed convolutions of stride 2 to 2·width, width, … channels (at
    64 pixels width once more, as published), tanh at the end. The dense layer's batch norm needs two codes to train.
    """
    sides = halvings(size)[::-1]
    first = 4 * width * sides[0] ** 2
    widths = [4 * width, 2 * width, *[width] * (len(sides) - 3), channels]
    layers: list[nn.Module] = [nn.Linear(code, first, bias=False), nn.BatchNorm1d(first), nn.ReLU()]
    layers.append(nn.Unflatten(1, (4 * width, sides[0], sides[0])))
    for layer, (before, after) in enumerate(pairwise(widths)):
        odd = sides[layer + 1] % 2
        last = layer == len(widths) - 2
        layers.append(nn.ConvTranspose2d(before, after, 3, 2, 1, output_padding=1 - odd, bias=last))
        layers += [nn.Tanh()] if last else [nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers)


def halvings(size: int) -> list[int]:
    """The sides of the maps from the image to the smallest: 28, 14, 7, 4."""
    sides = [size]
    while sides[-1] > 4:
        sides.append((sides[-1] + 1) // 2)
    return sides
