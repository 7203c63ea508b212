"""A convolutional autoencoder, to which the paper's entropy term can be added."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from normscope.errors import SettingError
from normscope.networks.convolutional import decoder, encoder
from normscope.objective import Entropy
from normscope.objective.entropy import laplace
from normscope.training.data_parallel import data_parallel
from normscope.training.device import full_precision
from normscope.training.method import Batch, Method, Phase, Record, Reference
from normscope.training.steps import update


@dataclass(frozen=True)
class Settings:
    """The convolutional autoencoder of GeoTrans's code (Golan & El-Yaniv 2018), with Keras's default Adam."""

    beta: float = 0.0
    entropy: Entropy = laplace
    noise: float = 0.0
    width: int = 64
    code: int = 256
    learning_rate: float = 1e-3
    epochs: int = 200
    batch_size: int = 128


class Autoencoder(Method):
    """Convolutional autoencoder; score = mean squared error of the reconstruction.

    Loss = mean squared error + β·H(z), with tanh codes z. β = 0 is the published autoencoder, there the first stage of
    a one-class SVM. Ye et al., "Relation to other algorithms": −log p(x|z) is the information term up to a constant,
    and adding the entropy term may improve the method; they give no β. Codes can lower H at little cost by being
    written smaller, which the decoder's batch norm undoes; `noise`, the standard deviation of Gaussian noise added to
    codes in training, gives them a scale. It is no part of the paper and off by default.
    """

    explains = True
    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s, (channels, _, size) = settings, shape
        if s.batch_size < 2:
            raise SettingError(f"batch_size is {s.batch_size}; give 2 or more: batch norm compares images")
        if s.beta < 0 or s.noise < 0:
            raise SettingError(f"beta is {s.beta} and noise is {s.noise}; give 0 or more")
        self.encoder = encoder(channels, s.width, size, s.code)
        self.decoder = decoder(channels, s.width, size, s.code)

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, self.settings.batch_size)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        return {"networks": Adam(self.parameters(), self.settings.learning_rate)}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        s = self.settings
        z = data_parallel(self.code, images)
        restored = data_parallel(self.decoder, z + s.noise * torch.randn_like(z) if s.noise else z)
        with full_precision(images.device):
            error, entropy = (restored.float() - images).square().mean(), s.entropy(z.float())
            loss = error + s.beta * entropy if s.beta else error
        update(optimizers["networks"], loss)
        return {"loss": loss, "error": error, "entropy": entropy}

    def code(self, images: Tensor) -> Tensor:
        return torch.tanh(self.encoder(images))

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        return self.explain(images, reference).mean((1, 2))

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """Squared error of each pixel, mean over channels."""
        return (self.decoder(self.code(images)) - images).square().mean(1)
