"""Deep SVDD: Ruff et al. 2018, Deep One-Class Classification."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from normscope.errors import SettingError
from normscope.networks.lenet import Decoder, Encoder, Network, layers
from normscope.scoring.centre import centre_of, squared_distance
from normscope.training.data_parallel import data_parallel
from normscope.training.device import full_precision
from normscope.training.method import Batch, Batches, Method, Phase, Record, Reference
from normscope.training.steps import spread, update
from normscope.views.contrast import UNSEEN, stretched, widened


@dataclass(frozen=True)
class Settings:
    """The published ones for CIFAR-10. Pretraining on MNIST had 150 epochs, milestone 50 and a weight decay of 5e-4."""

    objective: Literal["one-class", "soft-boundary"] = "one-class"
    nu: float = 0.1
    warm_up: int = 10
    pretraining: bool = True
    network: Network = "auto"
    width: int = 32
    learning_rate: float = 1e-4
    epochs: int = 150
    milestone: int = 50
    weight_decay: float = 5e-7
    pretrain_epochs: int = 350
    pretrain_milestone: int = 250
    pretrain_weight_decay: float = 5e-7
    batch_size: int = 200


class DeepSVDD(Method):
    """Deep SVDD: an encoder, pretrained as an autoencoder, draws normal images to a centre; score = squared distance.

    Ruff et al. 2018. One-class: mean ‖f(x) − c‖². Soft boundary: R² + mean max(0, ‖f(x) − c‖² − R²) / ν, where R is
    the (1 − ν)-quantile of the distances in the minibatch, from `warm_up` epochs on, and R² is taken off the score.
    Images are normalised in contrast and scaled to [0, 1] (views/contrast.py).

    Differences: c is the mean code of the first minibatch after pretraining, not of all training images; its entries
    nearer to 0 than 0.1 become ±0.1, as published. The paper has no network for Fashion-MNIST, so `auto` takes that of
    Deep SAD at 28 pixels, with a decoder whose layers are not verified; the leaky ReLU's slope, 0.01, is not either.
    All three networks take colour and any size. At a milestone (an epoch) the learning rate falls to a tenth.
    """

    has_codes = True
    settings: Settings
    centre: Tensor
    extremes: Tensor
    radius: Tensor

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        check(settings)
        net = layers(settings.network, settings.width, shape[-1])
        self.encoder = Encoder(net, shape[0], shape[-1])
        self.decoder = Decoder(net, shape[0], shape[-1]) if settings.pretraining else None
        self.register_buffer("centre", torch.zeros(net.code))  # not set: no entry of a centre is 0
        self.register_buffer("extremes", torch.tensor(UNSEEN))
        self.register_buffer("radius", torch.zeros(()))

    def phases(self) -> list[Phase]:
        s = self.settings
        milestone = s.pretrain_milestone / s.pretrain_epochs
        pretrain = Phase("pretrain", s.pretrain_epochs, s.batch_size, falls_at(milestone))
        train = Phase("train", s.epochs, s.batch_size, falls_at(s.milestone / s.epochs))
        return [pretrain, train] if s.pretraining else [train]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        s = self.settings
        if phase == "pretrain":
            return {"autoencoder": Adam(self.parameters(), s.learning_rate, weight_decay=s.pretrain_weight_decay)}
        return {"encoder": Adam(self.encoder.parameters(), s.learning_rate, weight_decay=s.weight_decay)}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        self.extremes.copy_(widened(self.extremes, images))
        if "autoencoder" in optimizers:
            return self.pretrain(images, optimizers["autoencoder"])
        if not self.centre.any():
            self.set_centre(images)
        z = data_parallel(self.code, images)
        with full_precision(z.device):
            distance = squared_distance(z.float(), self.centre)
            loss = self.loss(distance)
        update(optimizers["encoder"], loss)
        if self.settings.objective == "soft-boundary" and progress >= self.settings.warm_up / self.settings.epochs:
            self.radius.copy_(distance.detach().sqrt().quantile(1 - self.settings.nu))
        return {"loss": loss, "radius": self.radius, "spread": spread(z)}

    def pretrain(self, images: Tensor, optimizer: Optimizer) -> Record:
        assert self.decoder is not None
        x = stretched(images, self.extremes)
        z = data_parallel(self.encoder, x)
        error = (data_parallel(self.decoder, z).float() - x).square().sum((1, 2, 3)).mean()
        update(optimizer, error)
        return {"reconstruction": error, "spread": spread(z)}

    def loss(self, distance: Tensor) -> Tensor:
        if self.settings.objective == "one-class":
            return distance.mean()
        return self.radius**2 + (distance - self.radius**2).clamp(min=0).mean() / self.settings.nu

    def set_centre(self, images: Tensor) -> None:
        """From the codes in eval mode."""
        training = self.training
        self.eval()
        with torch.no_grad():
            self.centre.copy_(centre_of(self.code(images)))
        self.train(training)

    def finish(self, batches: Batches) -> Reference:
        """Centre and extremes of the trained network; those of all images for one that made no step."""
        if self.centre.any():
            return {"centre": self.centre.clone(), "extremes": self.extremes.clone()}
        extremes = self.extremes
        for images in batches:
            extremes = widened(extremes, images)
        codes = torch.cat([self.encoder(stretched(images, extremes)) for images in batches])
        return {"centre": centre_of(codes), "extremes": extremes}

    def code(self, images: Tensor) -> Tensor:
        return self.encoder(stretched(images, self.extremes))

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        codes = self.encoder(stretched(images, reference["extremes"]))
        return squared_distance(codes, reference["centre"]) - self.radius**2


def falls_at(share: float) -> Callable[[float], float]:
    return lambda progress: 0.1 if progress >= share else 1.0


def check(settings: Settings) -> None:
    if not 0 < settings.nu < 1:
        raise SettingError(f"nu is {settings.nu}; give the share of training images outside, between 0 and 1")
    if settings.batch_size < 2:
        raise SettingError(f"batch_size is {settings.batch_size}; batch norm needs 2 or more")
