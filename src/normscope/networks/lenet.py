"""The LeNet-type networks of Deep SVDD and Deep SAD (Ruff et al. 2018, 2020)."""

from itertools import pairwise
from typing import Literal, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from normscope.errors import SettingError

Network = Literal["auto", "cifar10", "fashion-mnist", "mnist"]
START = 4  # the side of the map that a decoder begins with


class Layers(NamedTuple):
    """Channels of the 5×5 convolutions, the hidden linear layer if there is one, and the code."""

    convolutions: tuple[int, ...]
    hidden: int | None
    code: int


def layers(network: Network, width: int, size: int) -> Layers:
    """The published networks are those of width 32. `auto` takes Fashion-MNIST's up to 28 pixels, then CIFAR-10's."""
    if width < 1 or width % 16:
        raise SettingError(f"width is {width}; give a multiple of 16 (the published networks have 32)")
    if network == "auto":
        network = "cifar10" if size > 28 else "fashion-mnist"
    if network == "mnist":
        return Layers((width // 4, width // 8), None, width)
    if network == "fashion-mnist":
        return Layers((width // 2, width), 4 * width, 2 * width)
    return Layers((width, 2 * width, 4 * width), None, 4 * width)


class Encoder(nn.Module):
    """Images [n, channels, size, size] → codes [n, layers.code].

    Without a bias, a bounded activation or an affine batch norm, so that no weights map every image to one given code
    other than nought. Each convolution is followed by batch norm, leaky ReLU and a halving.
    """

    def __init__(self, layers: Layers, channels: int, size: int) -> None:
        super().__init__()
        widths = (channels, *layers.convolutions)
        blocks = (
            nn.Sequential(convolution(before, after), norm2d(after), nn.LeakyReLU(), nn.MaxPool2d(2))
            for before, after in pairwise(widths)
        )
        flat = widths[-1] * (size // 2 ** len(layers.convolutions)) ** 2
        linear: list[nn.Module] = [nn.Linear(flat, layers.code, bias=False)]
        if layers.hidden:
            first = nn.Linear(flat, layers.hidden, bias=False)
            linear = [first, norm1d(layers.hidden), nn.LeakyReLU(), nn.Linear(layers.hidden, layers.code, bias=False)]
        self.blocks, self.linear = nn.Sequential(*blocks), nn.Sequential(*linear)

    def forward(self, images: Tensor) -> Tensor:
        codes: Tensor = self.linear(self.blocks(images).flatten(1))
        return codes


class Decoder(nn.Module):
    """Codes → images in [0, 1]: the encoder turned round, enlarging to the nearest pixel; needed in pretraining only.

    The published ones double the side of 4×4 maps and, for 28 pixels, cut one border off. This one enlarges to a
    quarter, a half and the whole of any size. Their transposed convolutions of stride 1 are convolutions.
    """

    def __init__(self, layers: Layers, channels: int, size: int) -> None:
        super().__init__()
        self.sides = [size // 4, size // 2, size]
        wide = layers.hidden or layers.code
        if layers.hidden:
            self.start: nn.Module = nn.Sequential(nn.Linear(layers.code, wide, bias=False), norm1d(wide))
        else:
            self.start = norm1d(wide) if len(layers.convolutions) == 3 else nn.Identity()
        widths = (wide // START**2, *reversed(layers.convolutions))
        self.blocks = nn.ModuleList(
            nn.Sequential(convolution(before, after), norm2d(after), nn.LeakyReLU())
            for before, after in pairwise(widths)
        )
        self.last = convolution(widths[-1], channels)

    def forward(self, codes: Tensor) -> Tensor:
        x = F.leaky_relu(self.start(codes).unflatten(1, (-1, START, START)))
        first, sides = self.sides[: -len(self.blocks)], self.sides[-len(self.blocks) :]
        for side in first:
            x = F.interpolate(x, (side, side))
        for block, side in zip(self.blocks, sides, strict=True):
            x = F.interpolate(block(x), (side, side))
        return self.last(x).sigmoid()


def convolution(before: int, after: int) -> nn.Conv2d:
    made = nn.Conv2d(before, after, 5, padding=2, bias=False)
    nn.init.xavier_uniform_(made.weight, nn.init.calculate_gain("leaky_relu"))
    return made


def norm2d(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-4, affine=False)


def norm1d(channels: int) -> nn.BatchNorm1d:
    return nn.BatchNorm1d(channels, eps=1e-4, affine=False)
