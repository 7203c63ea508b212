"""AnoGAN: an image that a GAN trained on normal images cannot make is anomalous."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer, RMSprop
from torch.optim.swa_utils import AveragedModel

from normscope.errors import SettingError
from normscope.networks.dcgan import Encoder, Generator, mistaken, normal_weights
from normscope.training.data_parallel import data_parallel
from normscope.training.method import Batch, Method, Phase, Record, Reference
from normscope.training.randomness import seeded
from normscope.training.steps import update

START = 0  # the key under which the search's first code is drawn, the same for every image
TOGETHER = 16  # images that are searched for at the same time


@dataclass(frozen=True)
class Settings:
    """Zenati et al.'s for 32×32; for the encoder form, rate and kappa of f-AnoGAN's code. See the class on epochs."""

    latent: int = 100
    width: int = 128
    learning_rate: float = 2e-4
    epochs: int = 20
    batch_size: int = 32
    average: float = 0.999
    search: Literal["latent", "encoder"] = "latent"
    search_steps: int = 500
    search_rate: float = 1e-3
    feature_weight: float = 0.1
    encoder_epochs: int = 20
    encoder_rate: float = 5e-5
    kappa: float = 1.0


class AnoGAN(Method):
    """AnoGAN (Schlegl et al. 2017): a DCGAN of normal images; score = distance to the nearest image it can make.

    `search=latent`: Adam searches, for `search_steps` steps, the code z that minimises
    (1 − λ)·‖x − G(z)‖₁ + λ·‖f(x) − f(G(z))‖₁, λ = `feature_weight`, f the discriminator's last map; the score is this
    loss in the end. Sources disagree on which of the two weighs 0.9: we take the residual. The search is very slow at
    full width; every image begins it at the same z. `search=encoder` is f-AnoGAN (Schlegl et al. 2019, izi_f): a second
    phase trains an encoder E on mean (x − x̂)² + κ·mean (f(x) − f(x̂))² with x̂ = G(E(x)), which is also the score.

    The networks and rates are those of Zenati et al.'s AnoGAN for 32×32; not verified: the network behind the published
    table, and the number of epochs of any 32×32 AnoGAN (20 is one re-implementation's at 64×64). f-AnoGAN's own GAN is
    a residual WGAN-GP and its encoder trains for 50,000 steps; ours shares the DCGAN, and has as many epochs for it.
    Scores use a running average of the weights, as Zenati et al. do; ours forgets faster at first, (t + 1) / (t + 10),
    lest short trainings score by their first weights.
    """

    scores_quickly = False
    explains = True
    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s, (channels, size, _) = settings, shape
        for name, value in {"feature_weight": s.feature_weight, "average": s.average}.items():
            if not 0 <= value <= 1:
                raise SettingError(f"{name} is {value}; give a number from 0 to 1")
        gan = {
            "generator": Generator(s.latent, channels, size, s.width),
            "discriminator": Encoder(channels, size, s.width, 1),
        }
        self.gan = nn.ModuleDict(gan)
        normal_weights(self.gan, 0.01)
        self.average = AveragedModel(self.gan, avg_fn=moving_average(s.average), use_buffers=True).requires_grad_(False)
        self.average.n_averaged.fill_(1)  # at 0 it would copy the weights of the first step
        self.encoder = Encoder(channels, size, s.width, s.latent) if s.search == "encoder" else None

    def export_obstacle(self) -> str | None:
        return None if self.encoder else "it searches, for each image, the code that makes it; search=encoder does not"

    def phases(self) -> list[Phase]:
        gan = Phase("gan", self.settings.epochs, self.settings.batch_size)
        encoder = Phase("encoder", self.settings.encoder_epochs, self.settings.batch_size)
        return [gan, encoder] if self.encoder else [gan]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        s = self.settings
        if phase == "encoder":
            assert self.encoder is not None
            return {"encoder": RMSprop(self.encoder.parameters(), s.encoder_rate, alpha=0.9, eps=1e-5)}
        return {name: Adam(net.parameters(), s.learning_rate, betas=(0.5, 0.999)) for name, net in self.gan.items()}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        if "encoder" in optimizers:
            return self.encoder_step(images, optimizers["encoder"])
        generator, discriminator = self.gan["generator"], self.gan["discriminator"]
        made = data_parallel(generator, torch.randn(len(images), self.settings.latent, device=images.device))
        real, fake = data_parallel(discriminator, images), data_parallel(discriminator, made.detach())
        mistakes = mistaken(real, 1.0) + mistaken(fake, 0.0)
        update(optimizers["discriminator"], mistakes)
        loss = mistaken(data_parallel(discriminator, made), 1.0)
        update(optimizers["generator"], loss)
        self.average.update_parameters(self.gan)
        return {"loss": loss, "discriminator": mistakes}

    def encoder_step(self, images: Tensor, optimizer: Optimizer) -> Record:
        self.average.eval()
        loss = data_parallel(self.encoder_distance, images).mean()
        update(optimizer, loss)
        return {"loss": loss}

    def encoder_distance(self, images: Tensor) -> Tensor:
        """[n]: f-AnoGAN's loss and score."""
        assert self.encoder is not None
        made = self.averaged["generator"](self.encoder(images))
        features = (self.features(images) - self.features(made)).square().mean(1)
        return (images - made).square().flatten(1).mean(1) + self.settings.kappa * features

    def distance(self, images: Tensor, features: Tensor, z: Tensor) -> Tensor:
        """[n]: AnoGAN's loss and score. `features` are the images'."""
        made, weight = self.averaged["generator"](z), self.settings.feature_weight
        residual = (images - made).abs().flatten(1).sum(1)
        return (1 - weight) * residual + weight * (features - self.features(made)).abs().sum(1)

    @property
    def averaged(self) -> nn.ModuleDict:
        return cast(nn.ModuleDict, self.average.module)

    def features(self, images: Tensor) -> Tensor:
        discriminator = self.averaged["discriminator"]
        assert isinstance(discriminator, Encoder)
        return discriminator.features(images)

    def code(self, images: Tensor) -> Tensor:
        """The code of the image that comes nearest, [n, latent]."""
        if self.encoder:
            return self.encoder(images)
        return torch.cat([self.searched(some) for some in images.split(TOGETHER)])

    def searched(self, images: Tensor) -> Tensor:
        """[n, latent]. However few images there are, as many are searched for: rounding depends on how many."""
        with seeded(START):
            start = nn.init.trunc_normal_(torch.empty(self.settings.latent)).to(images.device)
        with torch.inference_mode(False), torch.enable_grad():
            x = torch.cat([images, *[images[:1]] * (TOGETHER - len(images))])  # a copy that may take part in gradients
            z = start.clone().expand(TOGETHER, -1).clone().requires_grad_()
            features, adam = self.features(x), Adam([z], self.settings.search_rate)
            for _ in range(self.settings.search_steps):
                update(adam, self.distance(x, features, z).sum())
        return z.detach()[: len(images)]

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        if self.encoder:
            return self.encoder_distance(images)
        return self.distance(images, self.features(images), self.code(images))

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """Squared difference to the nearest image, mean over channels."""
        return (images - self.averaged["generator"](self.code(images))).square().mean(1)


def moving_average(most: float) -> Callable[[Tensor, Tensor, Tensor | int], Tensor]:
    """For AveragedModel: the average keeps (t + 1) / (t + 10) of itself at step t, and `most` at most."""

    def average(averaged: Tensor, current: Tensor, t: Tensor | int) -> Tensor:
        share = 1 - min(most, (int(t) + 1) / (int(t) + 10))
        return averaged.lerp(current, share) if averaged.is_floating_point() else current

    return average
