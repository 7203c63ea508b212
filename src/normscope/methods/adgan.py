"""ADGAN: an image that a WGAN of normal images cannot make, even if it adapts a little, is anomalous."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.optim import Adam, Optimizer

from normscope.networks.dcgan import Encoder, Generator
from normscope.training.data_parallel import data_parallel
from normscope.training.method import Batch, Method, Phase, Record, Reference
from normscope.training.randomness import seeded
from normscope.training.steps import update

STARTS = 0  # the key under which the first codes of the search are drawn, the same for every image


@dataclass(frozen=True)
class Settings:
    """Those of Golan and El-Yaniv's code."""

    latent: int = 256
    width: int = 64
    penalty: float = 20.0
    critic_steps: int = 2
    learning_rate: float = 1e-4
    epochs: int = 100
    least_steps: int = 10_000
    batch_size: int = 128
    starts: int = 8
    rounds: int = 5
    search_rate: float = 0.25
    adapt: bool = True
    adapt_rate: float = 5e-5


class ADGAN(Method):
    """ADGAN (Deecke et al. 2018): searches, from several starts, for the code and the generator that make the image.

    A WGAN with gradient penalty: the critic's loss is mean C(G(z)) − mean C(x) + penalty·mean (‖∇C(x̃)‖ − 1)² with x̃
    uniformly between the two, the generator's −mean C(G(z)). To score an image, each of `starts` pairs of a random
    code and a copy of the generator takes `rounds` rounds of one Adam step on the code, then one on the weights, on
    the mean squared error; the score is the mean of the errors that are left. `adapt=false` leaves the weights alone.

    Settings and networks are those of Golan and El-Yaniv's code, batch norm in the critic included; not verified: the
    starts, generator and settings of Deecke et al. themselves. Unlike that code: batch norm after the generator's
    first layer has one mean per channel, and uses its running averages when scoring; the critic's steps share
    a batch of images; every image begins the search at the same codes. Epochs there are 100 batches, 10,000
    generator steps in all: `least_steps`. Published, a score costs 88 passes back and forth with weights of their own.
    """

    scores_quickly = False
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s, (channels, size, _) = settings, shape
        self.generator = Generator(s.latent, channels, size, s.width, kernel=3)
        self.critic = Encoder(channels, size, s.width, 1, kernel=3, slope=0.0, norm_first=True)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
                nn.init.xavier_uniform_(layer.weight)

    def export_obstacle(self) -> str:
        return "it searches, for each image, the code and the generator that make it"

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, self.settings.batch_size, least_steps=self.settings.least_steps)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        networks = {"generator": self.generator, "critic": self.critic}
        rate = self.settings.learning_rate
        return {name: Adam(network.parameters(), rate, betas=(0.0, 0.9)) for name, network in networks.items()}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        for _ in range(self.settings.critic_steps):
            with torch.no_grad():
                made = self.generate(len(images), images.device)
            gap = data_parallel(self.critic, images).mean() - data_parallel(self.critic, made).mean()
            penalty = self.steepness(images, made)
            update(optimizers["critic"], self.settings.penalty * penalty - gap)
        loss = -data_parallel(self.critic, self.generate(len(images), images.device)).mean()
        update(optimizers["generator"], loss)
        return {"loss": loss, "gap": gap, "penalty": penalty}

    def generate(self, n: int, device: torch.device) -> Tensor:
        return data_parallel(self.generator, torch.randn(n, self.settings.latent, device=device))

    def steepness(self, images: Tensor, made: Tensor) -> Tensor:
        """(‖∇C‖ − 1)², mean over points drawn between images and what was made."""
        share = torch.rand(len(images), 1, 1, 1, device=images.device)
        between = (share * images + (1 - share) * made).requires_grad_()
        (slope,) = torch.autograd.grad(data_parallel(self.critic, between).sum(), between, create_graph=True)
        return (slope.flatten(1).norm(dim=1) - 1).square().mean()

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        """An image at a time: its starts are a batch already, and more together are no faster."""
        with seeded(STARTS):
            starts = torch.randn(self.settings.starts, self.settings.latent)
        with torch.inference_mode(False), torch.enable_grad():
            z = starts.clone().to(images.device)  # what inference mode made has no place in a gradient
            errors = [self.search(image, z) for image in images.clone().split(1)]
        return torch.stack(errors).mean(1)

    def search(self, image: Tensor, starts: Tensor) -> Tensor:
        """[starts]: what is left, from each start, of the error of an image [1, c, h, w]."""
        s, z = self.settings, starts.clone().requires_grad_()
        weights = {
            name: value.detach().expand(s.starts, *value.shape).clone().requires_grad_()
            for name, value in self.generator.named_parameters()
            if s.adapt
        }
        code_step = Adam([z], s.search_rate, betas=(0.5, 0.999))
        weight_step = Adam(weights.values(), s.adapt_rate, betas=(0.5, 0.999), fused=True) if s.adapt else None
        for _ in range(s.rounds):
            update(code_step, self.errors(image, weights, z).sum())
            if weight_step:
                update(weight_step, self.errors(image, weights, z).sum())
        with torch.no_grad():
            return self.errors(image, weights, z)

    def errors(self, image: Tensor, weights: dict[str, Tensor], z: Tensor) -> Tensor:
        """[starts]: mean squared error of what each code makes, with weights of its own if there are any."""

        def make(own: dict[str, Tensor], code: Tensor) -> Tensor:
            return functional_call(self.generator, own, (code[None],))[0]

        made = vmap(make)(weights, z) if weights else self.generator(z)
        return (made - image).square().flatten(1).mean(1)
