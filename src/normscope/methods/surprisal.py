"""The product's default: the paper's objective with the parts that work on the budget of a laptop."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from normscope.errors import SettingError
from normscope.networks.resnet import ResNet, layout
from normscope.objective import Entropy, Information, Separation
from normscope.objective.critics import contrast, cosine
from normscope.objective.cross_entropy import norm_margin
from normscope.objective.entropy import laplace
from normscope.objective.information import infonce
from normscope.scoring.held_out import held_out
from normscope.scoring.local import MOST_MAPS, columns, fit_heat, heat, some_channels
from normscope.scoring.neighbours import neighbours
from normscope.scoring.surprisal import Memory, beneath, fit_gaussian, fit_mixture, gaussian, mixture
from normscope.training.batches import Sample
from normscope.training.device import full_precision
from normscope.training.method import Batches, Method, Phase, Record
from normscope.training.muon import Muon
from normscope.training.steps import spread, update
from normscope.training.trade_off import Beta, Pair, TradeOff
from normscope.views.augment import Recipe, random_view
from normscope.views.shifts import rotations

COMPONENTS = 4
NEIGHBOURS = 5
MOST_REFERENCES = 5000
SURE = 0.2  # nats, added to the deviation of doubts: a head may be surer of the images it learnt from than of any other


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
    contrast: bool = False
    reference: Literal["gaussian", "mixture", "neighbours"] = "gaussian"
    width: int = 24
    depth: int = 1
    code: int = 128
    learning_rate: float = 3e-3
    convolution_rate: float = 2e-2
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

    Each image enters as a random view in four rotations. I is what a code tells of its rotation, with a linear head as
    critic: the answer is the positive, the other answers are the negatives. It is asked of the whole image and of every
    location. Codes are kept short (H); unrotated ones are kept longer than rotated ones (CE). With `contrast` each
    image enters as two views, and I also has what the code of one tells of the other, as in the paper: its positive is
    the other view in the same rotation. `shifts=none` leaves rotations, head and third term out, and needs contrast.

    The score of an image is the surprisal of its features (all three stages, averaged over the quarters of the image)
    under a reference fitted to the training images in that rotation, plus −log p(rotation | features); each is put on
    the scale of the training images and the mean is taken. What the head says of a rotation counts by how much it knows
    of it: that of a round thing, which looks the same in all of them, counts for nothing.

    Labelled anomalies, where there are any, enter every step beside the images: as further negatives, on the short side
    of the third term, and as one more answer of the head, whose −log p(no labelled anomaly) in each rotation is then a
    further part of the score. Without any the method is the same.
    """

    takes_anomalies = True
    settings: Settings
    shown: Tensor

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s = settings
        if s.shifts == "none" and not s.contrast:
            raise SettingError("with shifts=none there is nothing to learn from but other images; set contrast=true")
        self.turns = 4 if s.shifts == "rotations" else 1
        self.encoder = ResNet(shape[0], s.width, s.depth, shape[-1])
        d = self.encoder.dimension
        self.head = nn.Linear(d, self.turns + 1)  # the last answer: a labelled anomaly
        self.projector = (
            nn.Sequential(nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, s.code)) if s.contrast else None
        )
        if not s.contrast:  # a round thing's code tells nothing of its rotation, and is sound all the same
            self.collapse_shows_in = ("spread",)
        self.register_buffer("shown", torch.zeros(1))  # 1 once there were labelled anomalies
        self.trade_off = TradeOff(s.information, s.beta, s.beta_ramp, critics=3)
        self.recipe = Recipe(s.smallest_area, s.flip, s.colour, s.grey, s.blur)

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, warm_cosine, self.settings.least_steps)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        s, weights = self.settings, list(self.parameters())
        convolutions = [weight for weight in weights if weight.ndim == 4]
        others = [weight for weight in weights if weight.ndim < 4]
        return {
            "convolutions": Muon(convolutions, s.convolution_rate),
            "others": AdamW(others, s.learning_rate, weight_decay=s.weight_decay),
        }

    def step(self, images: Tensor, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images, bad = self.with_anomalies(images)
        self.shown.fill_(bad.any())
        views = 2 if self.projector else 1
        x = torch.cat([turned for _ in range(views) for turned in self.turned(random_view(images, self.recipe))])
        answer = torch.arange(self.turns, device=x.device).repeat_interleave(len(images)).repeat(views)
        answer[bad.repeat(self.turns * views)] = self.turns
        features = self.encoder(x.contiguous(memory_format=torch.channels_last))
        with full_precision(x.device):
            z, local = features.code.float(), features.local.float()
            pairs = self.answers(z, local, answer) if self.turns > 1 or bad.any() else []
            if self.projector:
                z = self.projector(z)
                pairs += self.views(z, answer)
            loss, record = self.trade_off(pairs, self.settings.entropy(z), progress)
            if self.turns > 1 or bad.any():
                apart = self.settings.separation(z[answer == 0], z[answer != 0])
                loss = loss - self.settings.gamma * apart
                record = {**record, "loss": loss, "separation": apart}
        update(optimizers.values(), loss)
        return {**record, "spread": spread(z)}

    def answers(self, z: Tensor, local: Tensor, answer: Tensor) -> list[Pair]:
        """What codes [m, d] and locations [m, d, h, w] tell of the rotation."""
        return [told(self.head(z), answer), told(self.head(local.permute(0, 2, 3, 1)), answer)]

    def views(self, z: Tensor, answer: Tensor) -> list[Pair]:
        """What the code of one view tells of the other."""
        return [contrast(cosine(z, z, self.settings.temperature))]

    def with_anomalies(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The images and, behind them, labelled anomalies drawn at random, at most a quarter as many; and which are."""
        known = images[:0] if self.anomalies is None else self.anomalies
        some = known[torch.randperm(len(known))[: max(1, len(images) // 4)].to(known.device)]
        bad = torch.arange(len(images) + len(some), device=images.device) >= len(images)
        return torch.cat([images, some]), bad

    def turned(self, images: Tensor) -> list[Tensor]:
        return rotations(images)[: self.turns]

    def look(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features of each rotation, [n, turns, d], and the head's doubts, [n, turns, 2]: −log p(rotation) as if there
        were no labelled anomalies, and −log p(not such an anomaly)."""
        maps = [self.encoder.stages(turned) for turned in self.turned(images)]
        logits = torch.stack([self.head(last.mean((2, 3))) for *_, last in maps], 1)
        rotation, every = logits[..., :-1].logsumexp(2), logits.logsumexp(2)
        doubts = torch.stack([rotation - logits[..., :-1].diagonal(dim1=1, dim2=2), every - rotation], 2)
        return torch.stack([layout(stages) for stages in maps], 1), doubts

    def finish(self, batches: Batches) -> None:
        """Fits a reference for each rotation, puts the parts of the score on one scale, and learns what is where."""
        looks, maps = Sample(MOST_REFERENCES), Sample(MOST_MAPS)
        self.memory = {"channels": some_channels(sum(self.encoder.widths))}
        for images in batches:
            looks.add(torch.cat(self.look(images), 2))
            maps.add(self.local(images))
        features, doubts = looks.rows[..., :-2], looks.rows[..., -2:]
        self.memory |= {
            f"{turn}.{name}": value
            for turn, x in enumerate(features.unbind(1))
            for name, value in self.fit_reference(x).items()
        }
        usual = torch.stack([held_out(x, self.fit_reference, self.surprisal_under) for x in features.unbind(1)], 1)
        self.memory["mean"] = side_by_side(usual.mean(0), doubts.mean(0))
        self.memory["deviation"] = side_by_side(usual.std(0) + 1e-6, doubts.std(0) + SURE)
        self.memory["weight"] = side_by_side(torch.ones_like(usual[0]), self.weights(doubts))
        self.memory |= {f"local.{name}": value for name, value in fit_heat(maps.rows).items()}

    def weights(self, doubts: Tensor) -> Tensor:
        """[turns, 2]: how much of a rotation can be told, and whether any labelled anomalies were shown."""
        most = math.log(self.turns) if self.turns > 1 else math.inf
        told = (1 - doubts[..., 0].mean(0) / most).clamp(min=0) * (self.turns > 1)
        return torch.stack([told, self.shown.expand_as(told)], 1)

    def fit_reference(self, features: Tensor) -> Memory:
        if self.settings.reference == "gaussian":
            return fit_gaussian(features)
        if self.settings.reference == "mixture":
            return fit_mixture(features, COMPONENTS)
        return {"codes": features}

    def surprisal_under(self, features: Tensor, memory: Memory) -> Tensor:
        if self.settings.reference == "gaussian":
            return gaussian(features, memory)
        if self.settings.reference == "mixture":
            return mixture(features, memory)
        return neighbours(features, memory["codes"], NEIGHBOURS)

    def score(self, images: Tensor) -> Tensor:
        features, doubts = self.look(images)
        surprisals = [
            self.surprisal_under(x, beneath(self.memory, f"{turn}.")) for turn, x in enumerate(features.unbind(1))
        ]
        parts = side_by_side(torch.stack(surprisals, 1), doubts)
        mean, deviation, weight = (self.memory[name].to(parts) for name in ("mean", "deviation", "weight"))
        return ((parts - mean) / deviation) @ (weight / weight.sum())

    def local(self, images: Tensor) -> Tensor:
        """The maps of all stages, side by side at the grid of the second: [n, c, h, w]."""
        maps = self.encoder.stages(images)
        return columns(maps, maps[1].shape[2:])[:, self.memory["channels"]]

    def explain(self, images: Tensor) -> Tensor:
        """Surprisal of every location, enlarged to the image; 99 of 100 normal images are below 1 everywhere."""
        return heat(self.local(images), beneath(self.memory, "local."), images.shape[-2:])


def side_by_side(surprisals: Tensor, doubts: Tensor) -> Tensor:
    """The parts of the score: surprisals [..., turns], then the head's doubts [..., turns, 2]."""
    return torch.cat([surprisals, doubts.flatten(-2)], -1)


def told(logits: Tensor, answer: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [n, ..., k] and the right answers [n] → scores of the right answer [m] and of the others [m, k − 1]."""
    k = logits.shape[-1]
    logits, answer = logits.reshape(-1, k), answer.repeat_interleave(logits[..., 0].numel() // len(answer))
    right = F.one_hot(answer, k).bool()
    return logits[right], logits[~right].view(-1, k - 1)


def warm_cosine(progress: float) -> float:
    """Rises over the first twentieth, then falls to nothing along a cosine."""
    return min(1.0, (progress + 0.01) / 0.05) * 0.5 * (1 + math.cos(math.pi * progress))
