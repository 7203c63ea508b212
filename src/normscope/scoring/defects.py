"""Small networks that tell self-made defects from normal locations of a feature map: the third term, locally."""

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from normscope.training.method import Reference

HEADS, HIDDEN = 4, 32
FEWEST, MOST, EPOCHS = 150, 1500, 4  # steps, and how often a normal row may be drawn for them
RATE, DECAY, BETAS = 3e-3, 1e-2, (0.9, 0.999)  # of AdamW
DEFECTS, NORMAL = 128, 256  # rows in a step
HOTTEST = 20  # locations whose mean is the score of an image


class Rows(NamedTuple):
    """What heads learn from, [m, d] of each image: features at normal locations and at defects, and the family of
    these."""

    normal: list[Tensor]
    defects: list[Tensor]
    family: npt.NDArray[np.float32]


@torch.inference_mode(False)
@torch.enable_grad()
def fit_heads(rows: Rows, choices: Sequence[npt.NDArray[np.intp]]) -> list[Reference]:
    """For each choice of images, a few heads: weights [k, out, in] and biases [k, out] of three layers.

    Cross entropy against pseudo-anomalies; whatever is random is drawn from torch's generator. Heads of one choice
    learn from the same rows, and differ by where they begin: chance decides less in their mean. All heads learn at
    once: few large products instead of many small ones.
    """
    every = torch.cat([*rows.normal, *rows.defects])
    lengths = [len(own) for own in rows.normal + rows.defects]
    places = torch.arange(len(every), dtype=torch.int32).split(lengths)  # those of all steps are kept: half the memory
    usual = [torch.cat([places[i] for i in images]) for images in choices]
    unusual = [torch.cat([places[len(rows.normal) + i] for i in images]) for images in choices]
    steps = min(MOST, max(FEWEST, EPOCHS * max(map(len, usual)) // NORMAL))
    sampled = torch.stack([*map(partial(sample, steps), unusual, usual)], 1).to(every.device)
    mean, deviation = moments(rows.normal, choices)
    scale = 1 / (deviation[:, None] + 1e-4)
    shift = -scale * mean[:, None]
    label = torch.cat([torch.ones(DEFECTS), torch.zeros(NORMAL)]).to(every).expand(len(choices), HEADS, -1)
    widths = [(HIDDEN, every.shape[1]), (HIDDEN, HIDDEN), (1, HIDDEN)]
    begin = torch.stack([start(widths) for _ in range(len(choices) * HEADS)])
    values = begin.unflatten(0, (len(choices), HEADS)).to(every.device).requires_grad_()
    first, second = torch.zeros_like(values), torch.zeros_like(values)  # moments of the gradient
    for step, drawn in enumerate(sampled):
        learnt_from = every.index_select(0, drawn.flatten()).unflatten(0, drawn.shape)  # sooner than every[drawn]
        found = odds(torch.addcmul(shift, learnt_from, scale), layers(values, widths))
        loss = F.binary_cross_entropy_with_logits(found, label, reduction="none").mean(2).sum()
        (gradient,) = torch.autograd.grad(loss, values)
        rate = RATE * (1 + math.cos(math.pi * step / steps)) / 2
        with torch.no_grad():
            adamw(values, gradient, first, second, rate, step + 1)
    weights, biases = map(list, zip(*layers(values.detach(), widths), strict=True))
    biases[0] = biases[0] + (weights[0] @ shift[:, None].mT)[..., 0]  # for rows as they came in
    weights[0] = weights[0] * scale[:, None]
    named = {f"{place}.w": w for place, w in enumerate(weights)} | {f"{place}.b": b for place, b in enumerate(biases)}
    return [{name: value[place].clone() for name, value in named.items()} for place in range(len(choices))]


def moments(rows: Sequence[Tensor], choices: Sequence[npt.NDArray[np.intp]]) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation, [c, d], of the rows [m, d] of each choice of images: from sums over each image."""
    sums = [torch.stack([own.double().pow(power).sum(0) for own in rows]) for power in (1, 2)]
    first, second = (torch.stack([of_images[choice].sum(0) for choice in choices]) for of_images in sums)
    count = torch.tensor([[sum(len(rows[i]) for i in choice)] for choice in choices]).to(first)
    variance = (second - first.square() / count) / (count - 1).clamp(min=1)
    return (first / count).to(rows[0]), variance.clamp(min=0).sqrt().to(rows[0])


def sample(steps: int, defects: Tensor, normal: Tensor) -> Tensor:
    """Of places of rows, those that heads learn from in each step: [steps, rows], those of defects first."""
    both = ((defects, DEFECTS), (normal, NORMAL))
    return torch.cat([places[torch.randint(len(places), (steps, n))] for places, n in both], 1)


def start(widths: Sequence[tuple[int, int]]) -> Tensor:
    """Values of all layers, one after the other."""
    return parameters_to_vector(p for out, width in widths for p in nn.Linear(width, out).parameters()).detach()


def layers(values: Tensor, widths: Sequence[tuple[int, int]]) -> list[tuple[Tensor, Tensor]]:
    """The weights [..., out, in] and biases [..., out] of each layer, from the values [..., .] of heads."""
    lengths = [length for out, width in widths for length in (out * width, out)]
    pieces = iter(values.split(lengths, -1))
    return [(next(pieces).unflatten(-1, shape), next(pieces)) for shape in widths]


def odds(rows: Tensor, layers: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Rows [c, n, d] → log odds of a defect, [c, k, n], by k heads of each choice."""
    (weight, bias), *others = layers
    choices, heads = weight.shape[:2]
    x = torch.baddbmm(bias.flatten(1)[:, None], rows, weight.flatten(1, 2).mT)
    x = x.unflatten(2, (heads, -1)).transpose(1, 2).flatten(0, 1)  # [c·k, n, .]
    for weight, bias in others:
        x = torch.baddbmm(bias.flatten(0, 1)[:, None], F.relu(x), weight.flatten(0, 1).mT)
    return x.unflatten(0, (choices, heads))[..., 0]


def adamw(values: Tensor, gradient: Tensor, first: Tensor, second: Tensor, rate: float, step: int) -> None:
    """A step of AdamW (Loshchilov & Hutter 2019), in place; torch's takes longer to import than a head to learn."""
    first.lerp_(gradient, 1 - BETAS[0])
    second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    deviation = (second / (1 - BETAS[1] ** step)).sqrt_().add_(1e-8)
    values.mul_(1 - rate * DECAY).addcdiv_(first, deviation, value=-rate / (1 - BETAS[0] ** step))


def logits(maps: Sequence[Tensor], heads: Reference) -> Tensor:
    """Maps [n, c, h, w] of several scales → [n, h, w] at the finest: log odds that a location is one of a defect, in
    the mean of the heads."""
    layers = [(heads[f"{place}.w"].to(maps[0]), heads[f"{place}.b"].to(maps[0])) for place in range(3)]
    each = [logits_of_one(maps, [(w[place], b[place]) for w, b in layers]) for place in range(len(layers[0][0]))]
    return torch.stack(each).mean(0)


def logits_of_one(maps: Sequence[Tensor], layers: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """The first layer comes before the coarser maps are brought to the finest grid: the result is the same, and there
    are far fewer locations."""
    (weight, bias), hidden, last = layers
    firsts = weight.split([one.shape[1] for one in maps], 1)
    x = F.relu(sum_at_finest([*map(linear, maps, firsts, [bias, *[None] * (len(maps) - 1)])]), inplace=True)
    x = F.relu(linear(x, *hidden), inplace=True)
    return linear(x, *last)[:, 0]


def linear(maps: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A 1 × 1 convolution of maps [n, c, h, w] as one matrix product: channels are last in memory."""
    return F.linear(maps.permute(0, 2, 3, 1), weight, bias).permute(0, 3, 1, 2)


def sum_at_finest(maps: Sequence[Tensor]) -> Tensor:
    """Those of one grid are added before they are enlarged."""
    finest, *coarser = maps
    for grid in dict.fromkeys(one.shape[2:] for one in coarser):
        together = reduce(torch.add, (one for one in coarser if one.shape[2:] == grid))
        finest = finest + F.interpolate(together, finest.shape[2:], mode="bilinear", align_corners=False)
    return finest


def hottest(maps: Tensor) -> Tensor:
    """[n, h, w] → [n]: the mean of the hottest locations."""
    flat = maps.flatten(1)
    return flat.topk(min(HOTTEST, flat.shape[1]), 1).values.mean(1)


def rows_at(maps: Sequence[Tensor], wanted: Tensor, most: int) -> list[Tensor]:
    """From each of n images at most so many rows [m, d], at random among the locations wanted [n, h, w].

    A row has the features of all maps [n, c, ., .] at that location, interpolated as in `logits`.
    """
    height, width = wanted.shape[1:]
    rows = []
    for index, one in enumerate(wanted):
        y, x = one.nonzero()[torch.randperm(int(one.count_nonzero()))[:most].to(one.device)].T
        place = torch.stack([(2 * x + 1) / width - 1, (2 * y + 1) / height - 1], 1)[None, :, None]
        at = [F.grid_sample(m[index, None], place.to(m), padding_mode="border", align_corners=False) for m in maps]
        rows.append(torch.cat(at, 1)[0, :, :, 0].T)
    return rows
