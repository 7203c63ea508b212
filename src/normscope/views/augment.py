"""Random views of a batch, on tensors, with parameters drawn for each image: float [n, c, h, w] in [-1, 1] throughout.

The paper says that it follows SimCLR and AMDIM and gives no list; strengths here are SimCLR's for small images.
Drawn from torch's global generator, which the caller seeds.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Recipe:
    """How far a view may differ from its image.

    `smallest_area` of a crop, 1 for none; chance of a `flip`; strength of the `colour` jitter (SimCLR's s, 0.5 on
    CIFAR); chance of `grey`; chance of `blur`.
    """

    smallest_area: float = 0.3
    flip: float = 0.5
    colour: float = 0.5
    grey: float = 0.2
    blur: float = 0.0


def random_view(x: Tensor, recipe: Recipe) -> Tensor:
    """One random view of every image, in the precision of the images even inside an autocast."""
    with torch.autocast(x.device.type, enabled=False):
        x = crop_and_flip(x, recipe.smallest_area, recipe.flip)
        x = recolour(x, recipe.colour, recipe.grey)
        return blur(x, recipe.blur) if recipe.blur else x


def amdim_views(x: Tensor) -> tuple[Tensor, Tensor]:
    """Two views as AMDIM draws them (Bachman et al. 2019): one flip for both, then for each a shift by up to an eighth
    of the side in four of five images, colour jitter, and grey for a quarter."""
    with torch.autocast(x.device.type, enabled=False):
        flipped = torch.where((torch.rand(len(x)) < 0.5).to(x.device)[:, None, None, None], x.flip(3), x)
        one, other = (recolour(translated(flipped, 0.8), 0.5, 0.25) for _ in range(2))
        return one, other


def translated(x: Tensor, chance: float) -> Tensor:
    """A random part of the batch moved by up to an eighth of the side; from beyond the edge comes the mirror image."""
    n, moved = len(x), (torch.rand(len(x)) < chance).float()
    theta = torch.eye(2, 3).repeat(n, 1, 1)
    theta[:, :, 2] = torch.empty(n, 2).uniform_(-0.25, 0.25) * moved[:, None]
    grid = F.affine_grid(theta.to(x), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def crop_and_flip(x: Tensor, smallest_area: float, flip: float) -> Tensor:
    """Random resized crop (area from smallest_area to 1, aspect ratio from 3/4 to 4/3) and mirror image, in one go."""
    n = len(x)
    area = torch.empty(n).uniform_(smallest_area, 1)
    # A crop of nearly the whole image must be nearly as square as it: beyond these bounds a side would exceed 1.
    ratio = torch.empty(n).uniform_(math.log(3 / 4), math.log(4 / 3)).exp().clamp(area, 1 / area)
    width, height = (area * ratio).sqrt(), (area / ratio).sqrt()
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0] = torch.where(torch.rand(n) < flip, -width, width)
    theta[:, 1, 1] = height
    theta[:, 0, 2] = torch.empty(n).uniform_(-1, 1) * (1 - width)
    theta[:, 1, 2] = torch.empty(n).uniform_(-1, 1) * (1 - height)
    grid = F.affine_grid(theta.to(x), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def recolour(x: Tensor, strength: float, grey: float) -> Tensor:
    """Colour jitter and grey in one linear map per image: brightness, contrast, saturation and hue are all linear.

    Four in five images are jittered, as in SimCLR. Hue turns the colour plane of YIQ, which at these strengths
    differs little from a turn in HSV. Images of one channel get brightness and contrast.
    """
    n, channels = x.shape[:2]
    jittered = torch.rand(n) < 0.8
    brightness, contrast, saturation = torch.where(jittered, 1 + 0.8 * strength * (2 * torch.rand(3, n) - 1), 1.0)
    angle = torch.where(jittered, 0.2 * strength * (2 * torch.rand(n) - 1) * 2 * math.pi, 0.0)
    saturation = torch.where(torch.rand(n) < grey, 0.0, saturation)
    # Brightness scales the distance from black, which is -1; contrast the distance from the image's own mean.
    mean = x.mean((1, 2, 3), keepdim=True)
    brightness, contrast = (factor.to(x)[:, None, None, None] for factor in (brightness, contrast))
    offset = brightness * (1 + (1 - contrast) * mean) - 1
    if channels == 3:
        x = torch.bmm(colour_matrix(saturation, angle).to(x), x.flatten(2)).view(x.shape)
    return (x * (brightness * contrast) + offset).clamp(-1, 1)


def colour_matrix(saturation: Tensor, angle: Tensor) -> Tensor:
    """[n, 3, 3]: scales colourfulness and turns the hue in YIQ, leaving luma alone."""
    to_yiq = torch.tensor([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
    turn = torch.zeros(len(angle), 3, 3)
    turn[:, 0, 0] = 1
    turn[:, 1, 1] = turn[:, 2, 2] = saturation * angle.cos()
    turn[:, 1, 2] = -saturation * angle.sin()
    turn[:, 2, 1] = saturation * angle.sin()
    return torch.linalg.inv(to_yiq) @ turn @ to_yiq


def blur(x: Tensor, chance: float) -> Tensor:
    """Gaussian blur of a random width (sigma 0.1 to 1 per 16 pixels of size) on a random part of the batch."""
    chosen = torch.rand(len(x)) < chance
    if not chosen.any():
        return x
    radius = max(1, x.shape[-1] // 16)
    sigma = torch.empty(int(chosen.sum())).uniform_(0.1, 1.0) * radius
    reach = torch.arange(-radius, radius + 1)
    kernel = torch.softmax(-(reach**2) / (2 * sigma[:, None] ** 2), 1).to(x)
    part = x[chosen]
    n, c, h, w = part.shape
    weights = kernel.repeat_interleave(c, 0)[:, None]
    rows = part.reshape(1, n * c, h, w)
    rows = F.conv2d(F.pad(rows, (radius, radius, 0, 0), "reflect"), weights[:, :, None, :], groups=n * c)
    rows = F.conv2d(F.pad(rows, (0, 0, radius, radius), "reflect"), weights[:, :, :, None], groups=n * c)
    out = x.clone()
    out[chosen] = rows.reshape(n, c, h, w).clamp(-1, 1)  # the weights sum to 1 up to rounding
    return out
