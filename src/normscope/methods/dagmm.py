"""A deep autoencoding Gaussian mixture model."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from normscope.errors import SettingError
from normscope.networks.convolutional import decoder, encoder
from normscope.training.data_parallel import data_parallel
from normscope.training.device import full_precision
from normscope.training.method import Batch, Batches, Method, Phase, Record, Reference
from normscope.training.steps import update

FLOOR, JITTER = 1e-3, 1e-4  # added to the variances: this, and in training noise of this standard deviation
TINY = 1e-7


@dataclass(frozen=True)
class Settings:
    """The values of GeoTrans's code (Golan & El-Yaniv 2018), whose results are in the paper's table; Keras's Adam."""

    energy: float = 0.01
    variance: float = 0.0005
    components: int = 3
    code: int = 5
    width: int = 64
    learning_rate: float = 1e-3
    epochs: int = 200
    batch_size: int = 256


class Mixture(NamedTuple):
    """k Gaussians of d dimensions: weights [k], means [k, d], covariances [k, d, d]."""

    weights: Tensor
    means: Tensor
    covariances: Tensor


class DAGMM(Method):
    """Deep autoencoding Gaussian mixture (Zong et al. 2018); score = energy of code and reconstruction error.

    z = [code, ‖x − x'‖/‖x‖, cosine(x, x')]; a network gives each z its shares γ of the components, from which follow
    the mixture's φ, μ, Σ; energy = −log Σ_k φ_k·N(z; μ_k, Σ_k). Loss = mean squared error + `energy`·mean energy +
    `variance`·Σ 1/Σ_jj. Networks and settings are those of GeoTrans's code; the original's for images were not
    verified. Changed: that code scores by the mixture of the last training batch and gives what is not finite the worst
    score; here the mixture is computed again from all training images after training, in float64, by Cholesky.
    """

    explains = True
    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s, (channels, _, size) = settings, shape
        if s.batch_size < 2:
            raise SettingError(f"batch_size is {s.batch_size}; give 2 or more: the mixture is that of a batch")
        self.encoder = encoder(channels, s.width, size, s.code)
        self.decoder = decoder(channels, s.width, size, s.code)
        layers = [nn.Linear(s.code + 2, 64), nn.Tanh(), nn.Dropout(0.5), nn.Linear(64, 10), nn.Tanh(), nn.Dropout(0.5)]
        self.estimator = nn.Sequential(*layers, nn.Linear(10, s.components), nn.Softmax(1))

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, self.settings.batch_size)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        return {"networks": Adam(self.parameters(), self.settings.learning_rate)}

    def represent(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """z [n, code + 2] and the reconstruction."""
        code = self.encoder(images)
        restored = self.decoder(code).float()
        x, y = images.flatten(1), restored.flatten(1)
        relative = (x - y).norm(dim=1) / (x.norm(dim=1) + TINY)
        return torch.cat([code.float(), relative[:, None], F.cosine_similarity(x, y)[:, None]], 1), restored

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        s = self.settings
        z, restored = data_parallel(self.represent, images)
        with full_precision(images.device):
            fitted = mixture(*moments(z, self.estimator(z)))
            jitter = JITTER * torch.randn_like(fitted.means)
            fitted = fitted._replace(covariances=fitted.covariances + jitter.diag_embed())
            error, mean_energy = F.mse_loss(restored, images), energy(z, fitted).mean()
            narrow = (1 / fitted.covariances.diagonal(dim1=1, dim2=2)).sum()
            loss = error + s.energy * mean_energy + s.variance * narrow
        update(optimizers["networks"], loss)
        return {"loss": loss, "error": error, "energy": mean_energy}

    def finish(self, batches: Batches) -> Reference:
        """The mixture of all training images: shares and moments add up over batches."""
        n, first, second = torch.zeros(()), torch.zeros(()), torch.zeros(())
        for images in batches:
            z = self.represent(images)[0]
            more = moments(z, self.estimator(z))
            n, first, second = n + more[0], first + more[1], second + more[2]
        return dict(mixture(n, first, second)._asdict())

    def code(self, images: Tensor) -> Tensor:
        return self.represent(images)[0]

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        return energy(self.code(images), Mixture(**reference))

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """Squared error of each pixel after reconstruction, mean over channels."""
        return (self.represent(images)[1] - images).square().mean(1)


def moments(z: Tensor, shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """z [n, d], shares [n, k] → Σγ [k], Σγz [k, d] and Σγzzᵀ [k, d, d], in float64."""
    z, shares = z.double(), shares.double()
    return shares.sum(0), shares.T @ z, torch.einsum("nk,nd,ne->kde", shares, z, z)


def mixture(n: Tensor, first: Tensor, second: Tensor) -> Mixture:
    """The mixture with these moments, its variances raised by FLOOR."""
    means = first / (n + TINY)[:, None]
    covariances = second / (n + TINY)[:, None, None] - means[:, :, None] * means[:, None, :]
    return Mixture(n / n.sum(), means, covariances + FLOOR * torch.eye(means.shape[1]).to(means))


def energy(z: Tensor, mixture: Mixture) -> Tensor:
    """[n]: −log density, in nats."""
    factor = torch.linalg.cholesky(mixture.covariances)
    away = (z.double()[:, None] - mixture.means).transpose(0, 1).transpose(1, 2)  # [k, d, n]
    white = torch.linalg.solve_triangular(factor, away, upper=False)
    log_volume = factor.diagonal(dim1=1, dim2=2).log().sum(1) + 0.5 * z.shape[1] * math.log(2 * math.pi)
    parts = (mixture.weights + TINY).log() - log_volume - 0.5 * white.square().sum(1).T
    return -parts.logsumexp(1)
