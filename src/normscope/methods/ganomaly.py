"""GANomaly: an image whose code changes when it is reconstructed and encoded again is anomalous."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor
from torch.optim import Adam, Optimizer

from normscope.errors import SettingError
from normscope.networks.dcgan import Encoder, Generator, mistaken, normal_weights
from normscope.training.data_parallel import data_parallel
from normscope.training.method import Batch, Method, Phase, Record, Reference
from normscope.training.steps import update

LEAST_LOSS = 1e-5  # a discriminator that makes so few mistakes teaches nothing and is begun afresh


@dataclass(frozen=True)
class Settings:
    """Those of the authors' code."""

    latent: int = 100
    width: int = 64
    adversarial: float = 1.0
    reconstruction: float = 50.0
    encoding: float = 1.0
    learning_rate: float = 2e-4
    epochs: int = 15
    batch_size: int = 64


class GANomaly(Method):
    """GANomaly (Akçay et al. 2018): encoder, decoder and second encoder; score = squared change of the code.

    z = E(x), x̂ = G(z), ẑ = E'(x̂); f is the last map of the discriminator. The generator's loss is
    adversarial·mean (f(x) − f(x̂))² + reconstruction·mean |x − x̂| + encoding·mean (z − ẑ)², the discriminator's the
    mean of its two cross-entropies. The score is the mean over the code of (z − ẑ)².

    Unlike the authors' code: batch norm uses its running averages when scoring, the last epoch counts and not the one
    that is best on the test set, scores are not scaled by the test set's range; the linear layers next to the codes
    have the weights of its 4×4 convolutions and, in the encoders, an offset; grey images are in [-1, 1] as all are;
    sizes that are no multiple of 8 (16 above 32) are framed with black.
    """

    explains = True
    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s, (channels, size, _) = settings, shape
        if min(s.adversarial, s.reconstruction, s.encoding) < 0:
            raise SettingError("adversarial, reconstruction and encoding weigh losses; give numbers from 0 on")
        self.encoder = Encoder(channels, size, s.width, s.latent)
        self.decoder = Generator(s.latent, channels, size, s.width)
        self.second = Encoder(channels, size, s.width, s.latent)
        self.discriminator = Encoder(channels, size, s.width, 1)
        normal_weights(self)

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, self.settings.batch_size)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        generator = [*self.encoder.parameters(), *self.decoder.parameters(), *self.second.parameters()]
        networks = {"generator": generator, "discriminator": [*self.discriminator.parameters()]}
        rate = self.settings.learning_rate
        return {name: Adam(parameters, rate, betas=(0.5, 0.999)) for name, parameters in networks.items()}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        s, f = self.settings, self.discriminator.features
        z, made, again = data_parallel(self.around, images)
        reconstruction, encoding = F.l1_loss(made, images), F.mse_loss(again, z)
        adversarial = F.mse_loss(data_parallel(f, made), data_parallel(f, images))
        loss = s.adversarial * adversarial + s.reconstruction * reconstruction + s.encoding * encoding
        update(optimizers["generator"], loss)
        real, fake = data_parallel(self.discriminator, images), data_parallel(self.discriminator, made.detach())
        mistakes = (mistaken(real, 1.0) + mistaken(fake, 0.0)) / 2
        update(optimizers["discriminator"], mistakes)
        if mistakes < LEAST_LOSS:
            normal_weights(self.discriminator)
        return {"loss": loss, "discriminator": mistakes, "reconstruction": reconstruction, "encoding": encoding}

    def around(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The code, the reconstruction and its code: z, x̂, ẑ."""
        z = self.encoder(images)
        made = self.decoder(z)
        return z, made, self.second(made)

    def code(self, images: Tensor) -> Tensor:
        return self.encoder(images)

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        z, _, again = self.around(images)
        return (z - again).square().mean(1)

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """Squared error of the reconstruction, mean over channels."""
        return (images - self.around(images)[1]).square().mean(1)
