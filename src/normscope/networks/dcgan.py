"""The networks of GANs for small images (Radford et al. 2016): halving convolutions down, doubling ones up."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Encoder(nn.Module):
    """Images [n, c, size, size] in [-1, 1] → [n, outputs]; with one output, a logit, it is a discriminator.

    Strided convolutions to width, 2·width, 4·width … channels end in a map of 4×4 (3×3 for sizes 33 to 48), which are
    the features; one linear layer follows. A size that cannot be halved so often is framed with black, −1.
    """

    def __init__(
        self,
        channels: int,
        size: int,
        width: int,
        outputs: int,
        *,
        kernel: int = 4,
        slope: float = 0.2,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        halvings, side = plan(size)
        layers: list[nn.Module] = []
        for level in range(halvings):
            after = width << level
            layers.append(nn.Conv2d(channels, after, kernel, stride=2, padding=1, bias=False))
            if level or norm_first:
                layers.append(nn.BatchNorm2d(after))
            layers.append(nn.LeakyReLU(slope))
            channels = after
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(channels * (side >> halvings) ** 2, outputs)
        self.frame = frame(size, side)

    def features(self, x: Tensor) -> Tensor:
        """[n, d]: the last map, flattened."""
        return self.body(F.pad(x, self.frame, value=-1.0)).flatten(1).float()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x)).float()


class Generator(nn.Module):
    """Codes [n, latent] → images [n, c, size, size] in [-1, 1]: the encoder backwards; what is framed is cut off."""

    def __init__(
        self, latent: int, channels: int, size: int, width: int, *, kernel: int = 4, dropout: float = 0.0
    ) -> None:
        super().__init__()
        halvings, side = plan(size)
        start, before = side >> halvings, width << (halvings - 1)
        layers: list[nn.Module] = [
            nn.Linear(latent, before * start**2, bias=False),
            nn.Unflatten(1, (before, start, start)),
            nn.BatchNorm2d(before),
            nn.ReLU(),
        ]
        for level in reversed(range(halvings - 1)):
            layers += [doubling(before, width << level, kernel), nn.BatchNorm2d(width << level), nn.ReLU()]
            before = width << level
        if dropout:
            layers.append(nn.Dropout(dropout))
        self.body = nn.Sequential(*layers, doubling(before, channels, kernel), nn.Tanh())
        self.frame, self.size = frame(size, side), size

    def forward(self, z: Tensor) -> Tensor:
        left, _, top, _ = self.frame
        return self.body(z)[:, :, top : top + self.size, left : left + self.size].float()


def plan(size: int) -> tuple[int, int]:
    """How often to halve, and the side, at least `size`, from which that leaves 3 or 4 pixels: 32 → (3, 32)."""
    halvings = 3 + max(0, math.ceil(math.log2(size / 32)))
    return halvings, math.ceil(size / 2**halvings) << halvings


def frame(size: int, side: int) -> tuple[int, int, int, int]:
    """Left, right, top and bottom margins that put an image of `size` in the middle of one of `side`."""
    before = (side - size) // 2
    return before, side - size - before, before, side - size - before


def doubling(before: int, after: int, kernel: int) -> nn.ConvTranspose2d:
    """Twice the side, exactly, for kernels of 3 and of 4."""
    return nn.ConvTranspose2d(before, after, kernel, stride=2, padding=1, output_padding=4 - kernel, bias=False)


def normal_weights(network: nn.Module, deviation: float = 0.02) -> None:
    """Weights from N(0, deviation²), those of batch norm from N(1, 0.02²), as GANs are commonly begun; no offsets."""
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.weight, 1.0, 0.02)
            nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            nn.init.normal_(layer.weight, 0.0, deviation)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def mistaken(logits: Tensor, truth: float) -> Tensor:
    """Mean binary cross-entropy of logits whose truth is 1 (real) or 0 (made up)."""
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, truth))
