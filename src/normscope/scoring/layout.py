"""The code and the feature maps of an image as one row, which is how they are kept during a fit."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Where in a row the code of so many entries is, and maps of these shapes (c, h, w), the finest first; anything may
    come behind them. Channels are last in a row, as in memory, for which pooling and resizing are faster."""

    code_length: int
    map_shapes: tuple[torch.Size, ...]

    @property
    def finest(self) -> tuple[int, int]:
        """Height and width of the finest map."""
        _, height, width = self.map_shapes[0]
        return height, width

    @property
    def lengths(self) -> list[int]:
        return [self.code_length, *map(math.prod, self.map_shapes)]

    def rows(self, code: Tensor, *maps: Tensor) -> Tensor:
        """Of codes [n, d] and maps [n, c, h, w]."""
        return torch.cat([code, *(one.permute(0, 2, 3, 1).flatten(1) for one in maps)], 1)

    def code(self, rows: Tensor) -> Tensor:
        return rows[:, : self.code_length].float()

    def maps(self, rows: Tensor) -> list[Tensor]:
        pieces = rows[:, : sum(self.lengths)].split(self.lengths, 1)[1:]
        shapes = [(height, width, channels) for channels, height, width in self.map_shapes]
        return [one.unflatten(1, shape).permute(0, 3, 1, 2).float() for one, shape in zip(pieces, shapes, strict=True)]

    def behind(self, rows: Tensor) -> Tensor:
        return rows[:, sum(self.lengths) :].float()
