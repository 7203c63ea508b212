"""Pseudo-anomalies: normal images changed so that they are normal no longer. Float [n, c, h, w] → the same shape.

Functions here take the images alone and draw what they need from torch's global generator, for each image.
"""

import torch
from torch import Tensor

__all__ = ["cut_paste", "noise", "patches2", "patches3", "rotation"]


def rotations(x: Tensor) -> list[Tensor]:
    """The image turned by 0, 90, 180 and 270 degrees; images must be square."""
    return [torch.rot90(x, turns, (2, 3)) if turns else x for turns in range(4)]


def rotation(x: Tensor) -> Tensor:
    """Each image turned by 90, 180 or 270 degrees."""
    turned = torch.stack(rotations(x)[1:])
    return turned[torch.randint(3, (len(x),)), torch.arange(len(x))]


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
    height, width = (torch.empty(n).uniform_(0.2, 0.5) * side for side in (h, w))
    rows, columns = torch.arange(h)[None, :], torch.arange(w)[None, :]
    top, left = torch.rand(n) * (h - height), torch.rand(n) * (w - width)
    inside = ((rows >= top[:, None]) & (rows < (top + height)[:, None]))[:, :, None] & (
        (columns >= left[:, None]) & (columns < (left + width)[:, None])
    )[:, None, :]
    source_top, source_left = torch.rand(n) * (h - height), torch.rand(n) * (w - width)
    down, right = (source_top - top).round().long(), (source_left - left).round().long()
    source_rows = (rows + down[:, None]).clamp(0, h - 1)
    source_columns = (columns + right[:, None]).clamp(0, w - 1)
    image = torch.arange(n)[:, None, None]
    pasted = x.permute(0, 2, 3, 1)[image, source_rows[:, :, None], source_columns[:, None, :]].permute(0, 3, 1, 2)
    return torch.where(inside[:, None].to(x.device), pasted, x)


def noise(x: Tensor) -> Tensor:
    """Gaussian noise of a standard deviation between 0.2 and 1, clipped to [-1, 1]."""
    strength = torch.empty(len(x), 1, 1, 1).uniform_(0.2, 1.0)
    return (x + strength.to(x) * torch.randn_like(x)).clamp(-1, 1)
