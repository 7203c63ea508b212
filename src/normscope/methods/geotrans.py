"""GeoTrans: Golan and El-Yaniv 2018, Deep Anomaly Detection Using Geometric Transformations."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Adam, Optimizer

from normscope.errors import SettingError
from normscope.networks.wide_resnet import WideResNet
from normscope.training.data_parallel import data_parallel
from normscope.training.device import full_precision
from normscope.training.method import Batch, Batches, Method, Phase, Record, Reference
from normscope.training.steps import update

EULER = 0.5772156649015329
MOST_ROUNDS, CLOSE_ENOUGH, NEWTON_STEPS = 1000, 1e-9, 5


@dataclass(frozen=True)
class Settings:
    """The published ones for 32 pixels; for 64 they are width=128, depth=16.

    `transforms`: 72 is flips × shifts × rotations, 36 shifts × rotations, 8 flips × rotations, 4 rotations.
    """

    transforms: Literal[72, 36, 8, 4] = 72
    evidence: Literal["dirichlet", "softmax"] = "dirichlet"
    references: int | Literal["all"] = "all"
    width: int = 64
    depth: int = 10
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    epochs: int = 200
    batch_size: int = 128


class GeoTrans(Method):
    """GeoTrans: a wide ResNet learns which flip, shift and rotation an image went through; score = how unsure it is.

    Golan and El-Yaniv 2018. For each transform T_t a Dirichlet with α_t is fitted to the softmax vectors p(T_t x) of
    the training images x; the score is the mean over t of −Σ_k (α_tk − 1) log p_k(T_t x), or with `evidence=softmax`
    of −p_t(T_t x). Scoring an image costs as many passes as there are transforms, and so does fitting a training
    image: `references` limits these to so many, drawn at random.

    Published are ⌈200 / 72⌉ = 3 epochs over 72 times the images. Here an epoch has each image once, under a transform
    drawn at random, and there are 3 × 72 of them. The shift is a quarter of the side, which is 8 at 32 pixels; images
    of 28 are not padded to 32. Adam's rate is Keras' default, which the authors' code does not state. log p comes from
    the logits and is always finite, unlike the published log of a softmax.
    """

    scores_quickly = False
    settings: Settings
    sources: Tensor

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        if settings.references != "all" and settings.references < 1:
            raise SettingError(f"references is {settings.references}; give all or a number of images from 1 on")
        self.network = WideResNet(shape[0], settings.transforms, settings.width, settings.depth)
        self.register_buffer("sources", sources(shape[-1], settings.transforms), persistent=False)

    def phases(self) -> list[Phase]:
        count = self.settings.transforms
        return [Phase("train", math.ceil(self.settings.epochs / count) * count, self.settings.batch_size)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        s = self.settings
        return {"network": Adam(self.parameters(), s.learning_rate, eps=1e-7, weight_decay=s.weight_decay)}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        which = torch.randint(self.settings.transforms, (len(images),)).to(images.device)
        logits = data_parallel(self.network, transformed(images, self.sources[which]))
        with full_precision(images.device):
            loss = F.cross_entropy(logits.float(), which)
        update(optimizers["network"], loss)
        return {"loss": loss, "accuracy": (logits.argmax(1) == which).float().mean()}

    def log_probabilities(self, images: Tensor) -> Iterator[Tensor]:
        """log p [n, transforms] of the images under one transform after the other."""
        for source in self.sources:
            yield self.network(transformed(images, source.expand(images.shape[0], -1))).float().log_softmax(1)

    @property
    def most_references(self) -> int | None:
        return None if self.settings.references == "all" else self.settings.references

    def finish(self, batches: Batches) -> Reference:
        """Only two means over the training images are needed for the Dirichlets, and kept in memory."""
        if self.settings.evidence == "softmax":
            return {}
        n, p, log_p = 0, torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        for images in batches:
            log_ps = [each.cpu().double() for each in self.log_probabilities(images)]
            n += len(images)
            p = p + torch.stack([each.exp().sum(0) for each in log_ps])
            log_p = log_p + torch.stack([each.sum(0) for each in log_ps])
        return {"alpha": fit_dirichlet(p / n, log_p / n).float().to(self.sources.device)}

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        if self.settings.evidence == "softmax":
            normal = [log_p[:, t].exp() for t, log_p in enumerate(self.log_probabilities(images))]
        else:
            alphas = reference["alpha"]
            normal = [
                (log_p * (alpha - 1)).sum(1)
                for log_p, alpha in zip(self.log_probabilities(images), alphas, strict=True)
            ]
        return -torch.stack(normal).mean(0)


def sources(side: int, transforms: int) -> Tensor:
    """[transforms, side²]: from which pixel each pixel comes, by flip, then shift with reflection, then rotation."""
    pixels = torch.arange(side * side).reshape(side, side)
    flips = [pixels, pixels.flip(1)] if transforms in (72, 8) else [pixels]
    moves = [0, -(side // 4), side // 4] if transforms in (72, 36) else [0]
    shifted = [
        flipped[reflected(side, down)][:, reflected(side, right)]
        for flipped in flips
        for right in moves
        for down in moves
    ]
    return torch.stack([torch.rot90(image, turns).flatten() for image in shifted for turns in range(4)])


def reflected(side: int, shift: int) -> Tensor:
    """Rows 0 … side − 1 moved by `shift`; from beyond the edge comes the mirror image (d c b a | a b c d)."""
    rows = torch.arange(side) - shift
    return torch.where(rows < 0, -1 - rows, torch.where(rows >= side, 2 * side - 1 - rows, rows))


def transformed(images: Tensor, source: Tensor) -> Tensor:
    """Images [n, c, h, w] with pixels taken from `source` [n, h·w]."""
    moved = images.flatten(2).gather(2, source[:, None].expand(-1, images.shape[1], -1))
    return moved.reshape(images.shape).contiguous(memory_format=torch.channels_last)


def fit_dirichlet(mean: Tensor, mean_log: Tensor) -> Tensor:
    """The most likely α [t, k] given the means of p and of log p, [t, k] in float64, by Minka's fixed point."""
    excess = (torch.xlogy(mean, mean) - mean * mean_log).sum(1, keepdim=True)
    alpha = mean * (mean.shape[1] - 1) * EULER / excess.clamp(min=1e-9)
    for _ in range(MOST_ROUNDS):
        before, alpha = alpha, inverse_digamma(alpha.sum(1, keepdim=True).digamma() + mean_log)
        if (alpha - before).abs().max() < CLOSE_ENOUGH:
            break
    return alpha


def inverse_digamma(y: Tensor) -> Tensor:
    x = torch.where(y >= -2.22, y.exp() + 0.5, -1 / (y + EULER))
    for _ in range(NEWTON_STEPS):
        x = x - (x.digamma() - y) / torch.polygamma(1, x)
    return x
