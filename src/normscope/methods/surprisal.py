"""The product's default: the paper's objective with the parts that work on the budget of a laptop."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from normscope.networks.resnet import ResNet, layout
from normscope.objective import Entropy, Information, Separation
from normscope.objective.critics import contrast, cosine
from normscope.objective.cross_entropy import norm_margin
from normscope.objective.entropy import laplace
from normscope.objective.information import infonce
from normscope.scoring.neighbours import neighbours
from normscope.scoring.surprisal import Memory, fit_gaussian, fit_mixture, gaussian, mixture
from normscope.training.batches import drawn
from normscope.training.device import full_precision
from normscope.training.method import Batches, Method, Phase, Record
from normscope.training.trade_off import Beta, TradeOff, spread, update
from normscope.views.augment import Recipe, random_view
from normscope.views.shifts import rotations

COMPONENTS = 4
NEIGHBOURS = 5
MOST_REFERENCES = 5000


@dataclass(frozen=True)
class Settings:
    """Chosen on development classes; docs/surprisal.md has what was tried and what it gave."""

    beta: Beta = 0.1
    beta_ramp: float = 0.0
    gamma: float = 0.1
    information: Information = infonce
    entropy: Entropy = laplace
    separation: Separation = norm_margin
    temperature: float = 0.5
    shifts: Literal["rotations", "none"] = "rotations"
    head: float = 1.0
    reference: Literal["gaussian", "mixture", "neighbours"] = "gaussian"
    width: int = 16
    depth: int = 1
    code: int = 128
    learning_rate: float = 3e-3
    weight_decay: float = 5e-4
    epochs: int = 60
    least_steps: int = 400
    batch_size: int = 32
    smallest_area: float = 0.3
    flip: float = 0.5
    colour: float = 0.5
    grey: float = 0.2
    blur: float = 0.0


class Surprisal(Method):
    """The default: I − β·H + γ·CE with rotated images as negatives and pseudo-anomalies; score = surprisal of features.

    Each image enters as two views in four rotations. A view's positive is the other view in the same rotation, so that
    rotated images are negatives (I); codes are kept short (H); unrotated ones are kept longer than rotated ones (CE). A
    head learns to tell the rotation. The score of an image is the surprisal of its features (all three stages, averaged
    over the quarters of the image) under a reference fitted to the training images in that rotation, plus
    −log p(rotation | features); each is put on the scale of the training images and the mean over rotations is taken.
    `shifts=none` leaves rotations, head and third term out.
    """

    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s = settings
        self.turns = 4 if s.shifts == "rotations" else 1
        self.encoder = ResNet(shape[0], s.width, s.depth, shape[-1])
        d = self.encoder.dimension
        self.projector = nn.Sequential(nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, s.code))
        self.head = nn.Linear(d, self.turns)
        self.trade_off = TradeOff(s.information, s.beta, s.beta_ramp)
        self.recipe = Recipe(s.smallest_area, s.flip, s.colour, s.grey, s.blur)

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, warm_cosine, self.settings.least_steps)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        s = self.settings
        return {"networks": AdamW(self.parameters(), s.learning_rate, weight_decay=s.weight_decay)}

    def step(self, images: Tensor, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        views = [random_view(images, self.recipe) for _ in range(2)]
        x = torch.cat([turned for view in views for turned in self.turned(view)])
        features = self.encoder(x.contiguous(memory_format=torch.channels_last)).code
        z, told = self.projector(features), self.head(features)
        turn = torch.arange(self.turns, device=x.device).repeat_interleave(len(images)).repeat(2)
        with full_precision(x.device):
            z, told = z.float(), told.float()
            pairs = [contrast(cosine(z, z, self.settings.temperature))]
            loss, record = self.trade_off(pairs, self.settings.entropy(z), progress)
            if self.turns > 1:
                apart = self.settings.separation(z[turn == 0], z[turn != 0])
                telling = F.cross_entropy(told, turn)
                loss = loss - self.settings.gamma * apart + self.settings.head * telling
                record = {**record, "loss": loss, "separation": apart, "head": telling}
        update(optimizers["networks"], loss)
        return {**record, "spread": spread(z)}

    def turned(self, images: Tensor) -> list[Tensor]:
        return rotations(images)[: self.turns]

    def look(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features of each rotation, [n, turns, d], and the head's doubt −log p(rotation), [n, turns]."""
        maps = [self.encoder.stages(turned) for turned in self.turned(images)]
        told = [self.head(last.mean((2, 3))).log_softmax(1) for *_, last in maps]
        doubts = [-log_p[:, turn] for turn, log_p in enumerate(told)]
        return torch.stack([layout(stages) for stages in maps], 1), torch.stack(doubts, 1)

    def finish(self, batches: Batches) -> None:
        """Fits a reference for each rotation, puts the parts of the score on one scale, and learns what is where."""
        looks = (torch.cat([features, doubts[..., None]], 2) for features, doubts in map(self.look, batches))
        seen = drawn(looks, MOST_REFERENCES)
        features, doubts = seen[..., :-1], seen[..., -1]
        self.memory = {
            f"{turn}.{name}": value
            for turn in range(self.turns)
            for name, value in fit_reference(self.settings.reference, features[:, turn]).items()
        }
        parts = self.parts(features, doubts, training=True)
        self.memory["mean"], self.memory["deviation"] = parts.mean(0), parts.std(0) + 1e-6
        self.memory["local.mean"], self.memory["local.deviation"] = moments(
            self.encoder(images).local for images in batches
        )

    def parts(self, features: Tensor, doubts: Tensor, training: bool = False) -> Tensor:
        """The parts of the score, each on its own scale: [n, turns] surprisals, then [n, turns] of the head's."""
        surprisals = [
            reference_surprisal(self.settings.reference, features[:, turn], self.recall(turn), training)
            for turn in range(self.turns)
        ]
        parts = torch.stack(surprisals, 1)
        return torch.cat([parts, doubts], 1) if self.turns > 1 and self.settings.head else parts

    def recall(self, turn: int) -> Memory:
        prefix = f"{turn}."
        return {name.removeprefix(prefix): v for name, v in self.memory.items() if name.startswith(prefix)}

    def score(self, images: Tensor) -> Tensor:
        parts = self.parts(*self.look(images))
        return ((parts - self.memory["mean"].to(parts)) / self.memory["deviation"].to(parts)).mean(1)

    def explain(self, images: Tensor) -> Tensor:
        """Mean squared deviation of the local features from what is usual at that place, enlarged to the image."""
        local = self.encoder(images).local
        strange = ((local - self.memory["local.mean"]) / self.memory["local.deviation"]).square().mean(1, keepdim=True)
        return F.interpolate(strange, images.shape[-2:], mode="bilinear", align_corners=False)[:, 0]


def warm_cosine(progress: float) -> float:
    """Rises over the first twentieth, then falls to nothing along a cosine."""
    return min(1.0, (progress + 0.01) / 0.05) * 0.5 * (1 + math.cos(math.pi * progress))


def fit_reference(kind: str, features: Tensor) -> Memory:
    if kind == "gaussian":
        return fit_gaussian(features)
    if kind == "mixture":
        return fit_mixture(features, COMPONENTS)
    return {"codes": features}


def reference_surprisal(kind: str, features: Tensor, memory: Memory, training: bool) -> Tensor:
    if kind == "gaussian":
        return gaussian(features, memory)
    if kind == "mixture":
        return mixture(features, memory)
    return neighbours(features, memory["codes"], NEIGHBOURS, leave_out_itself=training)


def moments(maps: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [d, h, w] over all images of batches of maps [n, d, h, w]."""
    n, total, squares = 0, torch.zeros(()), torch.zeros(())
    for batch in maps:
        n, total, squares = n + len(batch), total + batch.double().sum(0), squares + batch.double().square().sum(0)
    mean = total / n
    deviation = (squares / n - mean.square()).clamp(min=0).sqrt()
    return mean.float(), (deviation + 0.1 * deviation.mean() + 1e-6).float()
