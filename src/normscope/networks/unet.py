"""A U-Net (Ronneberger et al. 2015) with bilinear enlargement: an image into an image of the same size."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class UNet(nn.Module):
    """Images [n, inputs, h, w], at least 16 pixels a side → [n, outputs, h, w] in [-1, 1].

    Two 3×3 convolutions at each of five scales on the way down, with 1, 2, 4, 8 and 8 times `width` channels, and at
    four on the way up with 4, 2, 1 and 1 times, each also given the map of its scale from the way down.
    """

    def __init__(self, inputs: int, outputs: int, width: int = 64) -> None:
        super().__init__()
        w = width
        self.first = double(inputs, w)
        self.down = nn.ModuleList([double(w, 2 * w), double(2 * w, 4 * w), double(4 * w, 8 * w), double(8 * w, 8 * w)])
        self.up = nn.ModuleList([double(16 * w, 4 * w), double(8 * w, 2 * w), double(4 * w, w), double(2 * w, w)])
        self.last = nn.Conv2d(w, outputs, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        maps = [self.first(x)]
        for block in self.down:
            maps.append(block(F.max_pool2d(maps[-1], 2)))
        x = maps.pop()
        for block in self.up:
            skipped = maps.pop()
            enlarged = F.interpolate(x, skipped.shape[-2:], mode="bilinear", align_corners=False)
            x = block(torch.cat([skipped, enlarged], 1))
        return self.last(x).tanh()


def double(before: int, after: int) -> nn.Sequential:
    """Twice a 3×3 convolution with batch norm and ReLU."""
    widths = [before, after, after]
    return nn.Sequential(
        *(
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
            for a, b in pairwise(widths)
        )
    )
