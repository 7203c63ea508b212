"""The paper's base model: Algorithms 1 and 2 of Ye et al., Deep Unsupervised Image Anomaly Detection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from normscope.networks.amdim import encoder
from normscope.objective import Entropy, Information
from normscope.objective.critics import contrast, dot
from normscope.objective.entropy import laplace
from normscope.objective.information import infonce
from normscope.objective.trade_off import Beta, TradeOff
from normscope.scoring.norm import norm
from normscope.scoring.pair import pair
from normscope.training.device import full_precision
from normscope.training.method import Batch, Method, Phase, Record, Reference
from normscope.training.steps import spread, update
from normscope.views.augment import Recipe, random_view


@dataclass(frozen=True)
class Settings(Recipe):
    """The paper's values. It leaves open: batch size, views, the norm's scale, batch norm, initialisation."""

    beta: Beta = 20.0
    beta_ramp: float = 0.0
    information: Information = infonce
    entropy: Entropy = laplace
    clip_scale: Literal["size", "root"] = "size"
    encoder: Literal["small", "big", "medium", "slim", "tiny"] = "small"
    output_norm: bool = False
    initialisation: Literal["kaiming", "zero"] = "kaiming"
    learning_rate: float = 2e-4
    epochs: int = 400
    batch_size: int = 64
    score: Literal["ori", "rand", "mc"] = "ori"
    score_pairs: int = 100
    score_seed: int = 0


class Base(Method):
    """The paper's base model: InfoNCE between two views against the L1 norm of the codes; score = code's norm.

    Similarity is the raw dot product of Algorithm 1; the text speaks of normalised vectors, but then the score
    sim(z, z) would be constant. `clip_scale` c1 is the size of z as the paper has it, or its root as in AMDIM. The
    entropy `laplace` averages |z| over dimensions, which puts the losses on one scale at β = 20; `laplace_sum` is the
    other reading. `score`: ori is Algorithm 2; rand one pair of views; mc the sum over `score_pairs` of them.
    """

    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s = settings
        self.encoder = encoder(s.encoder, shape[0], s.output_norm, s.initialisation)
        self.scale = float(self.encoder.code_size) ** (1.0 if s.clip_scale == "size" else 0.5)
        self.trade_off = TradeOff(s.information, s.beta, s.beta_ramp)

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, self.settings.batch_size)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        return {"encoder": Adam(self.encoder.parameters(), self.settings.learning_rate)}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        """Algorithm 1, one minibatch."""
        images = batch.normal
        views = torch.cat([random_view(images, self.settings), random_view(images, self.settings)])
        z = self.encoder(views).code
        with full_precision(z.device):
            z = z.float()
            pairs = [contrast(dot(z, z, self.scale))]
            loss, record = self.trade_off(pairs, self.settings.entropy(z), progress)
        update(optimizers["encoder"], loss)
        return {**record, "spread": spread(z)}

    def code(self, images: Tensor) -> Tensor:
        return self.encoder(images).code

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        """Algorithm 2, or one of the two scores it replaces."""
        if self.settings.score == "ori":
            return norm(self.code(images), self.scale)
        pairs = 1 if self.settings.score == "rand" else self.settings.score_pairs
        return pair(self.code, images, self.settings, self.scale, pairs, self.settings.score_seed)
