"""A pre-activation ResNet (He et al. 2016) whose width and depth fit the budget of a CPU."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normscope.networks.features import Features


class ResNet(nn.Module):
    """Images [n, c, h, w] of any size from 28 to 1024 → code [n, 4·width] and local map [n, 4·width, h', w'].

    The first convolution halves the image, which leaves time for more steps. Images larger than 64 pixels are halved
    again until at most 32 a side are left, so that the cost hardly depends on the size. Three stages of `depth` blocks
    follow, the second and third at half and a quarter of that.
    """

    def __init__(self, channels: int = 3, width: int = 16, depth: int = 1, size: int = 32) -> None:
        super().__init__()
        stem: list[nn.Module] = [nn.Conv2d(channels, width, 4, stride=2, padding=1, bias=False)]
        for _ in range(math.ceil(math.log2(size / 64))):
            stem += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 4, stride=2, padding=1, bias=False)]
        self.stem = nn.Sequential(*stem)
        widths = [width, width, 2 * width, 4 * width]
        self.blocks = nn.Sequential(
            *(
                Block(widths[stage] if first else widths[stage + 1], widths[stage + 1], 2 if stage and first else 1)
                for stage in range(3)
                for first in [True] + [False] * (depth - 1)
            )
        )
        self.norm = nn.BatchNorm2d(4 * width)
        self.dimension, self.depth, self.widths = 4 * width, depth, widths[1:]

    def forward(self, x: Tensor) -> Features:
        local = F.relu(self.norm(self.blocks(self.stem(x))))
        return Features(local.mean((2, 3)), local)

    def stages(self, x: Tensor) -> list[Tensor]:
        """The maps after each of the three stages; the last is the local map."""
        maps, x = [], self.stem(x)
        for stage in range(3):
            x = self.blocks[stage * self.depth : (stage + 1) * self.depth](x)
            maps.append(x)
        return [F.relu(x) for x in (*maps[:2], self.norm(maps[2]))]


class CodeResNet(nn.Module):
    """A ResNet under a head like the paper's: images → code [n, code_size] and local map [n, local_channels, h', w'].

    The head has two linear layers with batch norm and ReLU between them; `rectify` puts a ReLU on the code.
    """

    def __init__(self, channels: int, width: int, size: int, code: int, rectify: bool) -> None:
        super().__init__()
        self.trunk = ResNet(channels, width, 1, size)
        d = self.local_channels = self.trunk.dimension
        self.head = nn.Sequential(nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, code))
        self.code_size, self.rectify = code, rectify

    def forward(self, x: Tensor) -> Features:
        return self.from_local(self.trunk(x).local)

    def from_local(self, local: Tensor) -> Features:
        """Of the trunk's last map."""
        code = self.head(local.mean((2, 3)))
        return Features(code.relu() if self.rectify else code, local)


def layout(maps: Sequence[Tensor]) -> Tensor:
    """What is roughly where: each map averaged over the quarters of the image and scaled to length 1, side by side."""
    return torch.cat([F.normalize(F.adaptive_avg_pool2d(x, 2).flatten(1), dim=1) for x in maps], 1)


class Block(nn.Module):
    """Two 3×3 convolutions, each after batch norm and ReLU; a 1×1 convolution on the shortcut where shapes differ."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(before)
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        same = stride == 1 and before == after
        self.stride = stride
        self.shortcut = None if same else nn.Conv2d(before, after, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(x))
        # Striding by slices: oneDNN's gradient of a strided 1×1 convolution corrupts memory at few channels.
        shortcut = x if self.shortcut is None else self.shortcut(y[:, :, :: self.stride, :: self.stride])
        y = self.conv1(y)
        return shortcut + self.conv2(F.relu(self.norm2(y)))
