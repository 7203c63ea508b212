"""Pseudo-anomalies: normal images changed so that they are normal no longer. Float [n, c, h, w] → the same shape.

Functions here take the images alone and draw what they need from torch's global generator, for each image.
"""

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["cut_paste", "noise", "patches2", "patches3", "quarter_turn", "rotation"]


Shift = Callable[[Tensor], Tensor]


def rotations(x: Tensor) -> list[Tensor]:
    """The image turned by 0, 90, 180 and 270 degrees; images must be square."""
    return [torch.rot90(x, turns, (2, 3)) if turns else x for turns in range(4)]


def rotation(x: Tensor) -> Tensor:
    """Each image turned by 90, 180 or 270 degrees."""
    return one_of(rotations(x)[1:])


def quarter_turn(x: Tensor) -> Tensor:
    """Each image turned by 90 or 270 degrees: for what looks the same upside down."""
    return one_of(rotations(x)[1::2])


def one_of(versions: list[Tensor]) -> Tensor:
    """Of every image one of its versions, drawn evenly."""
    n = len(versions[0])
    return torch.stack(versions)[torch.randint(len(versions), (n,)), torch.arange(n)]


def patches2(x: Tensor) -> Tensor:
    """The quarters of each image in another order."""
    return permuted_patches(x, 2)


def patches3(x: Tensor) -> Tensor:
    """The nine patches of each image in another order."""
    return permuted_patches(x, 3)


def permuted_patches(x: Tensor, grid: int) -> Tensor:
    """grid × grid patches in a random order that is never the original; a rest at the right and bottom edge stays."""
    n, c, h, w = x.shape
    ph, pw = h // grid, w // grid
    whole = x[:, :, : ph * grid, : pw * grid]
    patches = whole.reshape(n, c, grid, ph, grid, pw).permute(0, 2, 4, 1, 3, 5).reshape(n, grid * grid, c, ph, pw)
    order = torch.rand(n, grid * grid).argsort(1)
    unchanged = (order == torch.arange(grid * grid)).all(1, keepdim=True)
    order = torch.where(unchanged, order.roll(1, 1), order)
    patches = patches[torch.arange(n)[:, None], order]
    out = x.clone()
    out[:, :, : ph * grid, : pw * grid] = (
        patches.reshape(n, grid, grid, c, ph, pw).permute(0, 3, 1, 4, 2, 5).reshape(n, c, ph * grid, pw * grid)
    )
    return out


def cut_paste(x: Tensor) -> Tensor:
    """A rectangle of 4 to 25 % of each image pasted elsewhere in it (Li et al. 2021)."""
    n, _, h, w = x.shape
    height, width = ((torch.empty(n).uniform_(0.2, 0.5) * side).ceil().long().clamp(max=side // 2) for side in (h, w))
    top, left, source_left = (whole_number(room) for room in (h - height, w - width, w - width))
    # Counted on from the next row, around the end: never the rectangle itself, which would change nothing.
    source_top = (top + 1 + whole_number(h - height - 1)) % (h - height + 1)
    rows, columns = torch.arange(h)[None, :, None], torch.arange(w)[None, None, :]
    top, left, height, width, source_top, source_left = (
        value[:, None, None] for value in (top, left, height, width, source_top, source_left)
    )
    inside = (rows >= top) & (rows < top + height) & (columns >= left) & (columns < left + width)
    # Outside the rectangle the place does not matter, as long as there is one.
    source_rows, source_columns = (rows + source_top - top) % h, (columns + source_left - left) % w
    pasted = x.permute(0, 2, 3, 1)[torch.arange(n)[:, None, None], source_rows, source_columns].permute(0, 3, 1, 2)
    return torch.where(inside[:, None].to(x.device), pasted, x)


def whole_number(largest: Tensor) -> Tensor:
    """Drawn evenly from 0 to `largest`, both included."""
    return (torch.rand(len(largest)) * (largest + 1)).long().minimum(largest)


def noise(x: Tensor) -> Tensor:
    """Gaussian noise of a standard deviation between 0.2 and 1, clipped to [-1, 1]."""
    strength = torch.empty(len(x), 1, 1, 1).uniform_(0.2, 1.0)
    return (x + strength.to(x) * torch.randn_like(x)).clamp(-1, 1)
