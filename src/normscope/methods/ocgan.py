"""OCGAN: an autoencoder whose every code, not only those of normal images, has to decode to a normal image."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from normscope.errors import SettingError
from normscope.networks.dcgan import Encoder, Generator, mistaken, normal_weights
from normscope.training.data_parallel import data_parallel
from normscope.training.method import Batch, Method, Phase, Record, Reference
from normscope.training.steps import update

LATENT_WEIGHT = 10.0
MINING_STEP = 2.0


@dataclass(frozen=True)
class Settings:
    """Those of the authors' README where it gives one, else the defaults of their code."""

    latent: int = 16
    width: int = 64
    critic_width: int = 12
    reconstruction: float = 10.0
    noise: float = 0.2
    mining_from: float = 150 / 201
    learning_rate: float = 2e-4
    epochs: int = 201
    batch_size: int = 512


class OCGAN(Method):
    """OCGAN (Perera et al. 2019): denoising autoencoder with codes spread over a cube that decodes to normal images.

    z = E(x + noise) in (-1, 1)^d and x̂ = G(z). A latent discriminator tells codes from uniform draws u of the cube; a
    visual one tells images from G(u); a classifier tells x̂ from G(u). Encoder and decoder minimise
    10·(codes taken for uniform) + (G(tanh m) taken for real) + reconstruction·mean (x − x̂)² / 2, m drawn uniformly. In
    the last quarter (`mining_from`) m first takes one gradient step of length 2 towards where the classifier finds
    G(tanh m) least like a reconstruction: informative negatives. The score is mean (x − x̂)², without noise.

    Unlike the authors' code: images keep their size, so convolutions are 4×4 with padding, not 5×5 on 61×61; codes end
    in tanh as the paper says; the latent discriminator 128-64-32-16 has one logit, where the code feeds 16 sigmoids to
    another sigmoid. Not verified: which of the code's four scores was published, latent size, epoch and validation.
    README and code differ on reconstruction (10, 500), noise (0.2, 0.02) and critic width (12, 8).
    """

    explains = True
    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s, (channels, size, _) = settings, shape
        if s.noise < 0:
            raise SettingError(f"noise is {s.noise}; give a standard deviation from 0 on")
        if not 0 <= s.mining_from <= 1:
            raise SettingError(f"mining_from is {s.mining_from}; give a share of the training, from 0 to 1")
        self.encoder = nn.Sequential(Encoder(channels, size, s.width, s.latent), nn.Tanh())
        self.decoder = Generator(s.latent, channels, size, s.width, dropout=0.5)
        self.latent = dense(s.latent, 128, 64, 32, 16, 1)
        self.visual = Encoder(channels, size, s.critic_width, 1)
        self.classifier = Encoder(channels, size, s.width, 1)
        normal_weights(self)

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, self.settings.batch_size)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        networks = {
            "autoencoder": [*self.encoder.parameters(), *self.decoder.parameters()],
            "discriminators": [*self.latent.parameters(), *self.visual.parameters()],
            "classifier": [*self.classifier.parameters()],
        }
        rate = self.settings.learning_rate
        return {name: Adam(parameters, rate, betas=(0.5, 0.999)) for name, parameters in networks.items()}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        noisy = images + self.settings.noise * torch.randn_like(images)
        with torch.no_grad():
            z = data_parallel(self.encoder, noisy)
            made, drawn = data_parallel(self.decoder, z), data_parallel(self.decoder, self.uniform(images))
        mistakes = self.discriminators_loss(images, z, drawn)
        update(optimizers["discriminators"], mistakes)
        taken = [data_parallel(self.classifier, one) for one in (drawn, made)]
        confusion = (mistaken(taken[0], 0.0) + mistaken(taken[1], 1.0)) / 2
        update(optimizers["classifier"], confusion)
        loss, reconstruction = self.autoencoder_loss(images, noisy, self.negatives(images, progress))
        update(optimizers["autoencoder"], loss)
        return {"loss": loss, "reconstruction": reconstruction, "discriminators": mistakes, "classifier": confusion}

    def uniform(self, images: Tensor) -> Tensor:
        """A draw of the cube for each image, [n, latent]."""
        return torch.rand(len(images), self.settings.latent, device=images.device) * 2 - 1

    def discriminators_loss(self, images: Tensor, z: Tensor, drawn: Tensor) -> Tensor:
        latent = mistaken(self.latent(self.uniform(images)).float(), 1.0) + mistaken(self.latent(z).float(), 0.0)
        real, made = data_parallel(self.visual, images), data_parallel(self.visual, drawn)
        visual = mistaken(real, 1.0) + mistaken(made, 0.0)
        return (latent + visual) / 2

    def negatives(self, images: Tensor, progress: float) -> Tensor:
        """Codes in the cube for the visual discriminator to judge; mined ones from `mining_from` on."""
        m = self.uniform(images)
        if progress >= self.settings.mining_from:
            m.requires_grad_()
            made = data_parallel(self.decoder, m.tanh())
            likeness = mistaken(data_parallel(self.classifier, made), 0.0) * len(m)
            (uphill,) = torch.autograd.grad(likeness, m)
            m = m.detach() - MINING_STEP * uphill
        return m.tanh()

    def autoencoder_loss(self, images: Tensor, noisy: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
        z = data_parallel(self.encoder, noisy)
        reconstruction = F.mse_loss(data_parallel(self.decoder, z), images) / 2
        latent = mistaken(self.latent(z).float(), 1.0)
        visual = mistaken(data_parallel(self.visual, data_parallel(self.decoder, negatives)), 1.0)
        loss = LATENT_WEIGHT * latent + visual + self.settings.reconstruction * reconstruction
        return loss, reconstruction

    def code(self, images: Tensor) -> Tensor:
        return self.encoder(images)

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        return self.explain(images, reference).mean((1, 2))

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """Squared error of the reconstruction, mean over channels."""
        return (images - self.decoder(self.encoder(images))).square().mean(1)


def dense(*sizes: int) -> nn.Sequential:
    """Linear layers between these sizes, with ReLU between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
