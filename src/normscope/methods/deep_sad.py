"""Deep SAD: Ruff et al. 2020, Deep Semi-Supervised Anomaly Detection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

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

LEAST_DISTANCE = 1e-6


@dataclass(frozen=True)
class Settings:
    """Those of the authors' command line, which is for MNIST; `anomaly_share` and `contrast` are ours."""

    eta: float = 1.0
    anomaly_share: float = 0.05
    contrast: bool = False
    pretraining: bool = True
    network: Network = "auto"
    width: int = 32
    learning_rate: float = 1e-4
    epochs: int = 150
    milestone: int = 50
    weight_decay: float = 5e-7
    pretrain_epochs: int = 150
    pretrain_weight_decay: float = 5e-4
    batch_size: int = 128


class DeepSAD(Method):
    """Deep SAD: Deep SVDD that also pushes labelled anomalies away from the centre; score = squared distance to it.

    Ruff et al. 2020. With d = ‖f(x) − c‖², the loss is the mean over normal images of d and over anomalies of η / d.
    Without anomalies a training step is that of one-class Deep SVDD. Images are scaled to [0, 1]; `contrast` normalises
    them as Deep SVDD does.

    Differences: the authors mix the anomalies into the training images, where they are as frequent as they happen to be
    (1 % in their example); here `anomaly_share` of them for each normal image is added to every minibatch, in both
    phases, at least one. c is the mean code of the normal images in the first minibatch after pretraining. Fashion-
    MNIST's decoder is not verified; `auto` and the sizes other than 28 and 32 are ours (networks/lenet.py). At
    `milestone` (an epoch) the learning rate falls to a tenth.
    """

    takes_anomalies: ClassVar[bool] = True
    has_codes = True
    settings: Settings
    centre: Tensor
    extremes: Tensor

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        check(settings)
        net = layers(settings.network, settings.width, shape[-1])
        self.encoder = Encoder(net, shape[0], shape[-1])
        self.decoder = Decoder(net, shape[0], shape[-1]) if settings.pretraining else None
        self.register_buffer("centre", torch.zeros(net.code))  # not set: no entry of a centre is 0
        self.register_buffer("extremes", torch.tensor(UNSEEN))

    @property
    def anomaly_share(self) -> float:
        return self.settings.anomaly_share

    def phases(self) -> list[Phase]:
        s = self.settings
        falling = lambda progress: 0.1 if progress >= s.milestone / s.epochs else 1.0  # noqa: E731
        train = Phase("train", s.epochs, s.batch_size, falling)
        return [Phase("pretrain", s.pretrain_epochs, s.batch_size), train] if s.pretraining else [train]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        s = self.settings
        if phase == "pretrain":
            return {"autoencoder": Adam(self.parameters(), s.learning_rate, weight_decay=s.pretrain_weight_decay)}
        return {"encoder": Adam(self.encoder.parameters(), s.learning_rate, weight_decay=s.weight_decay)}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images, x = batch.normal, torch.cat(batch)
        if self.settings.contrast:
            self.extremes.copy_(widened(self.extremes, images))
        if "autoencoder" in optimizers:
            return self.pretrain(x, optimizers["autoencoder"])
        if not self.centre.any():
            self.set_centre(images)
        z = data_parallel(self.code, x)
        with full_precision(z.device):
            distance = squared_distance(z.float(), self.centre)
            pushed = self.settings.eta / (distance[len(images) :] + LEAST_DISTANCE)
            loss = torch.cat([distance[: len(images)], pushed]).mean()
        update(optimizers["encoder"], loss)
        return {"loss": loss, "spread": spread(z)}

    def pretrain(self, images: Tensor, optimizer: Optimizer) -> Record:
        assert self.decoder is not None
        x = self.scaled(images, self.extremes)
        z = data_parallel(self.encoder, x)
        error = (data_parallel(self.decoder, z).float() - x).square().mean()
        update(optimizer, error)
        return {"reconstruction": error, "spread": spread(z)}

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
        codes = torch.cat([self.encoder(self.scaled(images, extremes)) for images in batches])
        return {"centre": centre_of(codes), "extremes": extremes}

    def scaled(self, images: Tensor, extremes: Tensor) -> Tensor:
        return stretched(images, extremes) if self.settings.contrast else (images + 1) / 2

    def code(self, images: Tensor) -> Tensor:
        return self.encoder(self.scaled(images, self.extremes))

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        return squared_distance(self.encoder(self.scaled(images, reference["extremes"])), reference["centre"])


def check(settings: Settings) -> None:
    if settings.eta <= 0:
        raise SettingError(f"eta is {settings.eta}; give the weight of an anomaly, above 0")
    if not 0 < settings.anomaly_share <= 1:
        raise SettingError(f"anomaly_share is {settings.anomaly_share}; give anomalies per normal image, from 0 to 1")
    if settings.batch_size < 2:
        raise SettingError(f"batch_size is {settings.batch_size}; batch norm needs 2 or more")
