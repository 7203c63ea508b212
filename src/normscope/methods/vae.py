"""A variational autoencoder, scored by how badly it reconstructs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from normscope.errors import SettingError
from normscope.training.data_parallel import data_parallel
from normscope.training.device import full_precision
from normscope.training.method import Batch, Method, Phase, Record, Reference
from normscope.training.randomness import seeded
from normscope.training.steps import update


@dataclass(frozen=True)
class Settings:
    """Deep SAD's values for CIFAR-10; its width and code are 256 and 64 for Fashion-MNIST, 128 and 32 for MNIST."""

    width: int = 512
    code: int = 128
    score: Literal["drawn", "mean"] = "drawn"
    learning_rate: float = 1e-3
    weight_decay: float = 1e-6
    epochs: int = 100
    batch_size: int = 128


class VAE(Method):
    """Variational autoencoder (Kingma & Welling 2014); score = cross-entropy of the pixels and their reconstruction.

    Loss per image: Σ over pixels of BCE(x', x) + log q(z|x) − log p(z), at one z drawn from q(z|x) = N(mean, exp(log
    variance)), with p = N(0, I). Pixels count in [0, 1]. The networks are the fully connected ones of Deep SAD's code
    (Ruff et al. 2020): pixels-width-width/2-code and back. The layers and epochs of the VAE in the paper's table
    (Deecke et al. 2018) could not be verified. Grey images count three times in the loss, once for each channel.

    `score`: drawn is one draw of z, as coded there, but with the same noise for every image, so that scores repeat;
    mean takes the mean of q. Neither adds the KL term. BCE of a perfect reconstruction is the entropy of its grey
    values and not 0, so that images in black and white score low; `explain` shows the squared error instead.
    """

    explains = True
    has_codes = True
    rectangles = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        if settings.width < 2:
            raise SettingError(f"width is {settings.width}; give 2 or more: the second layer has half as many")
        sizes = [math.prod(shape), settings.width, settings.width // 2, settings.code]
        self.encoder = dense([*sizes[:3], 2 * settings.code])
        self.decoder = dense(sizes[::-1])

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, self.settings.batch_size)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        s = self.settings
        return {"networks": Adam(self.parameters(), s.learning_rate, weight_decay=s.weight_decay)}

    def posterior(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(z|x), [n, code] each."""
        mean, log_variance = self.encoder(unit(images)).chunk(2, 1)
        return mean, log_variance

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        mean, log_variance = data_parallel(self.posterior, images)
        noise = torch.randn_like(mean)
        z = mean + noise * (log_variance / 2).exp()
        logits = data_parallel(self.decoder, z)
        with full_precision(images.device):
            reconstruction = cross_entropy(logits.float(), images).mean()
            kl = divergence(z.float(), noise.float(), log_variance.float()).mean()
            loss = reconstruction + kl
        update(optimizers["networks"], loss)
        return {"loss": loss, "reconstruction": reconstruction, "kl": kl}

    def code(self, images: Tensor) -> Tensor:
        return self.posterior(images)[0]

    def reconstruct(self, images: Tensor) -> Tensor:
        """Logits of the pixels, [n, c·h·w]."""
        mean, log_variance = self.posterior(images)
        if self.settings.score == "drawn":
            with seeded(0):
                noise = torch.randn(mean.shape[1]).to(mean)
            mean = mean + noise * (log_variance / 2).exp()
        return self.decoder(mean)

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        return cross_entropy(self.reconstruct(images), images)

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """Squared error of each pixel in [0, 1], mean over channels."""
        error = self.reconstruct(images).sigmoid() - unit(images)
        return error.square().view(-1, *self.shape).mean(1)


def dense(sizes: Sequence[int]) -> nn.Sequential:
    """Fully connected, ReLU between the layers; Xavier-normal weights and no bias at first."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layer = nn.Linear(before, after)
        nn.init.xavier_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def unit(images: Tensor) -> Tensor:
    """[n, c, h, w] in [-1, 1] → [n, c·h·w] in [0, 1]."""
    return (images.flatten(1) + 1) / 2


def cross_entropy(logits: Tensor, images: Tensor) -> Tensor:
    """[n]: nats, summed over pixels."""
    return F.binary_cross_entropy_with_logits(logits, unit(images), reduction="none").sum(1)


def divergence(z: Tensor, noise: Tensor, log_variance: Tensor) -> Tensor:
    """[n]: log q(z|x) − log p(z) at z = mean + noise · deviation."""
    return 0.5 * (z.square() - noise.square() - log_variance).sum(1)
