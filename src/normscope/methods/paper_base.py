"""The paper's base model: Algorithms 1 and 2 of Ye et al., Deep Unsupervised Image Anomaly Detection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer

from normscope.networks import amdim
from normscope.networks.resnet import CodeResNet
from normscope.objective import Entropy, Information, Separation
from normscope.objective.critics import contrast, dot
from normscope.objective.cross_entropy import norm_margin
from normscope.objective.entropy import laplace
from normscope.objective.information import infonce
from normscope.objective.landscape import verdict
from normscope.objective.trade_off import Beta, TradeOff, ramp
from normscope.scoring.norm import norm, norm_ratio
from normscope.scoring.pair import pair
from normscope.training.device import full_precision
from normscope.training.method import Batch, Method, Phase, Record, Reference
from normscope.training.muon import muon_and_adamw
from normscope.training.schedules import warm_cosine
from normscope.training.steps import spread, update
from normscope.views.augment import Recipe, amdim_views, random_view
from normscope.views.shifts import Shift, rotation, rotations

CODE = 1024  # the paper's size of a code


@dataclass(frozen=True)
class Settings(Recipe):
    """`preset=laptop`, the default: the reading that works in minutes, with the third term. `preset=paper`: the literal
    one, which leaves open batch size, views, the norm's scale, batch norm and initialisation.

    `code` auto is the size that goes with the encoder, `beta_unit` code gives β for codes of 1,024 entries: it is
    multiplied by √(code / 1024), which keeps the trade-off of the L1 norm at any size. `gamma=0` leaves the third term
    out, as the paper does.
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "paper": {
            "smallest_area": 0.3,
            "beta": 20.0,
            "beta_ramp": 0.0,
            "gamma": 0.0,
            "clip_scale": "size",
            "encoder": "small",
            "rectify": False,
            "optimizer": "adam",
            "learning_rate": 2e-4,
            "epochs": 400,
            "least_steps": 1,
            "batch_size": 64,
            "score": "ori",
        }
    }

    preset: Literal["laptop", "paper"] = "laptop"
    smallest_area: float = 0.8
    views: Literal["simclr", "amdim"] = "simclr"
    beta: Beta = 5.0
    beta_unit: Literal["one", "code"] = "one"
    beta_ramp: float = 0.2
    gamma: float = 2.0
    shift: Shift = rotation
    information: Information = infonce
    entropy: Entropy = laplace
    separation: Separation = norm_margin
    clip_scale: Literal["size", "root"] = "root"
    encoder: Literal["resnet", "small", "big", "medium", "slim", "tiny"] = "resnet"
    width: int = 24
    code: int | Literal["auto"] = "auto"
    rectify: bool = True
    output_norm: bool = False
    initialisation: Literal["kaiming", "zero"] = "kaiming"
    optimizer: Literal["muon", "adam"] = "muon"
    learning_rate: float = 3e-3
    convolution_rate: float = 2e-2
    weight_decay: float = 5e-4
    epochs: int = 4
    least_steps: int = 400
    batch_size: int = 32
    score: Literal["ratio", "ori", "rand", "mc"] = "ratio"
    score_pairs: int = 100
    score_clip: bool = True
    score_seed: int = 0


class Base(Method):
    """The paper's base model: InfoNCE between two views against the L1 norm of the codes; score = code's norm.

    Similarity is the raw dot product of Algorithm 1; the text speaks of normalised vectors, but then the score
    sim(z, z) would be constant. `clip_scale` c1 is the size of z as the paper has it, or its root as in AMDIM. The
    entropy `laplace` averages |z| over dimensions, which puts the losses on one scale at β = 20; `laplace_sum` is the
    other reading. docs/theory.md has which readings can work at all.

    The third term, which the paper derives and drops for want of anomalies, takes shifted versions of the views for
    them: `separation` keeps their codes short and the others long, with norms in units of √c1, weighted by `gamma` and
    ramped like β.

    `score`: ori is Algorithm 2; ratio sets the norm against those of the image's own rotations; rand is one pair of
    views; mc the sum over `score_pairs` of them.
    """

    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s = settings
        code = None if s.code == "auto" else s.code
        self.encoder: amdim.Amdim | CodeResNet
        if s.encoder == "resnet":
            self.encoder = CodeResNet(shape[0], s.width, shape[-1], code or CODE, s.rectify)
        else:
            self.encoder = amdim.encoder(s.encoder, shape[0], s.output_norm, s.initialisation, code, s.rectify)
        size = self.encoder.code_size
        self.scale = float(size) ** (1.0 if s.clip_scale == "size" else 0.5)
        self.beta = s.beta if s.beta == "auto" or s.beta_unit == "one" else s.beta * (size / CODE) ** 0.5
        self.trade_off = TradeOff(s.information, self.beta, s.beta_ramp)

    def advice(self) -> str | None:
        return verdict(self.settings.entropy, self.beta, self.encoder.code_size, self.scale, self.settings.batch_size)

    def phases(self) -> list[Phase]:
        s = self.settings
        if s.optimizer == "adam":
            return [Phase("train", s.epochs, s.batch_size, least_steps=s.least_steps)]
        return [Phase("train", s.epochs, s.batch_size, warm_cosine, s.least_steps)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        s = self.settings
        if s.optimizer == "adam":
            return {"encoder": Adam(self.encoder.parameters(), s.learning_rate)}
        return muon_and_adamw(self.encoder.parameters(), s.convolution_rate, s.learning_rate, s.weight_decay)

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        """Algorithm 1, one minibatch, with the third term if γ is not 0."""
        s, views = self.settings, torch.cat(self.two_views(batch.normal))
        x = torch.cat([views, s.shift(views)]) if s.gamma else views
        z = self.encoder(x.contiguous(memory_format=torch.channels_last)).code
        with full_precision(z.device):
            z, shifted = z.float().split(len(views)) if s.gamma else (z.float(), None)
            loss, record = self.trade_off([contrast(dot(z, z, self.scale))], s.entropy(z), progress)
            if shifted is not None:
                separation = s.separation(z / self.scale**0.5, shifted / self.scale**0.5)
                loss = loss - s.gamma * ramp(progress, s.beta_ramp) * separation
                record = {**record, "loss": loss, "separation": separation}
        update(optimizers.values(), loss)
        return {**record, "spread": spread(z)}

    def two_views(self, images: Tensor) -> tuple[Tensor, Tensor]:
        if self.settings.views == "amdim":
            return amdim_views(images)
        return random_view(images, self.settings), random_view(images, self.settings)

    def code(self, images: Tensor) -> Tensor:
        return self.encoder(images).code

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        """Algorithm 2, or one of the two scores it replaces, or the ratio of norms."""
        s = self.settings
        if s.score == "ori":
            return norm(self.code(images), self.scale)
        if s.score == "ratio":
            return norm_ratio(torch.stack([self.code(x).norm(dim=1) for x in rotations(images)], 1))
        pairs = 1 if s.score == "rand" else s.score_pairs
        return pair(self.code, images, s, self.scale, pairs, s.score_seed, s.score_clip)
