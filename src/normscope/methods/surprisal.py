"""The paper's objective with the parts that work on the budget of a laptop."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from normscope.networks.resnet import ResNet, layout
from normscope.objective import Entropy, Information, Separation
from normscope.objective.cross_entropy import norm_margin
from normscope.objective.entropy import laplace
from normscope.objective.information import infonce
from normscope.objective.trade_off import Beta, Pair, TradeOff
from normscope.scoring.held_out import two_fold
from normscope.scoring.local import MOST_MAPS, columns, fit_heat, heat, random_channels
from normscope.scoring.neighbours import fit_neighbours, neighbour_distance
from normscope.scoring.reservoir import Reservoir
from normscope.scoring.surprisal import fit_gaussian, fit_mixture, gaussian, mixture
from normscope.scoring.with_encoder import WithEncoder, frozen_encoder
from normscope.training.data_parallel import data_parallel
from normscope.training.device import full_precision
from normscope.training.method import Batch, Batches, Phase, Record, Reference, part, under
from normscope.training.muon import muon_and_adamw
from normscope.training.schedules import warm_cosine
from normscope.training.steps import spread, update
from normscope.views.augment import Recipe, random_view
from normscope.views.shifts import rotations

COMPONENTS = 4
MOST_REFERENCES = 5000
ROTATIONS = 4
DOUBT_FLOOR = 0.2  # nats added to the std of −log p: the head is overconfident on its training images


@dataclass(frozen=True)
class Settings(Recipe):
    """Chosen on development classes; docs/surprisal.md has what was tried and what it gave.

    What was measured about `beta` and `gamma`, at one minute: without both, the AUROC is the same. `reference` auto is
    `neighbours` for images in colour and `gaussian` for grey ones. `pretrained` names an encoder as that of the method
    `pretrained`, whose codes are then half of the score.
    """

    beta: Beta = 0.1
    beta_ramp: float = 0.0
    gamma: float = 0.1
    information: Information = infonce
    entropy: Entropy = laplace
    separation: Separation = norm_margin
    reference: Literal["auto", "gaussian", "mixture", "neighbours"] = "auto"
    pretrained: str = ""
    width: int = 24
    depth: int = 1
    learning_rate: float = 3e-3
    convolution_rate: float = 2e-2
    weight_decay: float = 5e-4
    epochs: int = 60
    least_steps: int = 400
    batch_size: int = 32


class Surprisal(WithEncoder):
    """I − β·H + γ·CE with rotated images as negatives and pseudo-anomalies; score = surprisal of features.

    Each image enters as a random view in four rotations. I is what a code tells of its rotation, with a linear head as
    critic: the rotation is the positive, the others are the negatives. The head classifies the code of the whole image
    and that of every location. Codes are kept short (H); unrotated ones are kept longer than rotated ones (CE).

    The score of an image is how surprising its features are (all three stages, averaged over the quarters of the
    image) plus −log p(rotation | features), each on the scale of the training images. The head's part counts by how
    much it can tell: of a round thing, which looks the same in all rotations, it counts for nothing. Features are
    compared with a reference: a Gaussian or a mixture of them for each rotation, or the nearest neighbours, by the
    features of all rotations together, each in the mean of the image and its mirror image.

    Labelled anomalies, where there are any, enter every step beside the images: as further negatives, on the short side
    of the third term, and as one more class of the head, whose −log p(no labelled anomaly) in each rotation is then a
    further part of the score. Without any the method is the same.

    With `pretrained`, an encoder gives half of the score (`scoring/with_encoder.py`).
    """

    explains = True
    scaled_heat = True
    takes_anomalies = True
    collapse_shows_in = (
        "spread",
    )  # the code of a round thing tells nothing of its rotation, and is sound all the same
    settings: Settings
    shown: Tensor

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s = settings
        self.encoder = ResNet(shape[0], s.width, s.depth, shape[-1])
        self.head = nn.Linear(self.encoder.dimension, ROTATIONS + 1)  # the last class: a labelled anomaly
        self.register_buffer("shown", torch.zeros(1))  # 1 once there were labelled anomalies
        self.frozen = frozen_encoder(s.pretrained, shape)
        self.trade_off = TradeOff(s.information, s.beta, s.beta_ramp, critics=2)

    def phases(self) -> list[Phase]:
        s = self.settings
        return [Phase("train", s.epochs, s.batch_size, warm_cosine, s.least_steps)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        s = self.settings
        trained = [*self.encoder.parameters(), *self.head.parameters(), *self.trade_off.parameters()]
        return muon_and_adamw(trained, s.convolution_rate, s.learning_rate, s.weight_decay)

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = torch.cat(batch)
        anomalous = torch.arange(len(images), device=images.device) >= len(batch.normal)
        self.shown.fill_(anomalous.any())
        x = torch.cat(rotations(random_view(images, self.settings)))
        label = torch.arange(ROTATIONS, device=x.device).repeat_interleave(len(images))
        label[anomalous.repeat(ROTATIONS)] = ROTATIONS
        features = data_parallel(self.encoder, x.contiguous(memory_format=torch.channels_last))
        with full_precision(x.device):
            z, local = features.code.float(), features.local.float()
            loss, record = self.trade_off(self.critics(z, local, label), self.settings.entropy(z), progress)
            separation = self.settings.separation(z[label == 0], z[label != 0])
            loss = loss - self.settings.gamma * separation
        update(optimizers.values(), loss)
        return {**record, "loss": loss, "separation": separation, "spread": spread(z)}

    def critics(self, z: Tensor, local: Tensor, label: Tensor) -> list[Pair]:
        """Positive and negative scores of the head on codes [m, d] and on locations [m, d, h, w]."""
        return [classified(self.head(z), label), classified(self.head(local.permute(0, 2, 3, 1)), label)]

    def represent(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features of each rotation, [n, 4, d], and the head's doubts, [n, 4, 2]: −log p(rotation) as if there were no
        labelled anomalies, and −log p(not such an anomaly)."""
        maps = [self.encoder.stages(rotated) for rotated in rotations(images)]
        logits = torch.stack([self.head(last.mean((2, 3))) for *_, last in maps], 1)
        rotation, every = logits[..., :-1].logsumexp(2), logits.logsumexp(2)
        doubts = torch.stack([rotation - logits[..., :-1].diagonal(dim1=1, dim2=2), every - rotation], 2)
        return torch.stack([layout(stages) for stages in maps], 1), doubts

    def finish(self, batches: Batches) -> Reference:
        """The reference, the scale of each part of the score, and the local Gaussians."""
        kind: str = self.settings.reference
        rows, maps = Reservoir(MOST_REFERENCES), Reservoir(MOST_MAPS)
        channels = random_channels(sum(self.encoder.widths))
        for encoded in batches:
            images = self.images(encoded)
            if kind == "auto":  # the first images decide
                kind = "gaussian" if is_grey(images) else "neighbours"
            rows.add(torch.cat(self.described(images, kind == "neighbours"), 2))
            maps.add(self.local(images, channels))
        features, doubts = rows.rows[..., :-2], rows.rows[..., -2:]
        usual = two_fold(features, partial(fit_reference, kind=kind), surprisals)
        share = torch.full_like(usual[0], ROTATIONS / usual.shape[1])
        return {
            "channels": channels,
            **fit_reference(features, kind),
            "mean": side_by_side(usual.mean(0), doubts.mean(0)),
            "deviation": side_by_side(usual.std(0) + 1e-6, doubts.std(0) + DOUBT_FLOOR),
            "weight": side_by_side(share, self.weights(doubts)),
            **self.fit_encoder(batches),
            **under("local", fit_heat(maps.rows)),
        }

    def described(self, images: Tensor, with_mirror_image: bool) -> tuple[Tensor, Tensor]:
        """`represent`, in the mean of the image and its mirror image if the network has seen such."""
        features, doubts = self.represent(images)
        if not with_mirror_image or self.settings.flip == 0:
            return features, doubts
        mirrored, other_doubts = self.represent(images.flip(3))
        return (features + mirrored) / 2, (doubts + other_doubts) / 2

    def weights(self, doubts: Tensor) -> Tensor:
        """[4, 2]: the share of the rotation that the head can tell, and whether any labelled anomalies were shown."""
        told = (1 - doubts[..., 0].mean(0) / math.log(ROTATIONS)).clamp(min=0)
        return torch.stack([told, self.shown.expand_as(told)], 1)

    def score(self, encoded: Tensor, reference: Reference) -> Tensor:
        features, doubts = self.described(self.images(encoded), "neighbours.codes" in reference)
        parts = side_by_side(surprisals(features, reference), doubts)
        mean, deviation, weight = (reference[name].to(parts) for name in ("mean", "deviation", "weight"))
        learnt = ((parts - mean) / deviation) @ (weight / weight.sum())
        return self.half_each(learnt, encoded, reference)

    def local(self, images: Tensor, channels: Tensor) -> Tensor:
        """These channels of all stages, side by side at the grid of the second: [n, c, h, w]."""
        maps = self.encoder.stages(images)
        return columns(maps, maps[1].shape[2:])[:, channels]

    def explain(self, encoded: Tensor, reference: Reference) -> Tensor:
        """Surprisal of every location; 99 of 100 normal images are below 1 everywhere."""
        return heat(self.local(self.images(encoded), reference["channels"]), part(reference, "local"))


def is_grey(images: Tensor) -> bool:
    """Whether all channels have the same values."""
    return bool((images == images[:, :1]).all())


def fit_reference(features: Tensor, kind: str) -> Reference:
    """To features [n, turns, d]: one for all rotations together, or one for each."""
    if kind == "neighbours":
        return under("neighbours", fit_neighbours(features.flatten(1)))
    fit = fit_gaussian if kind == "gaussian" else partial(fit_mixture, components=COMPONENTS)
    fitted = map(fit, features.unbind(1))
    return {f"{turn}.{name}": value for turn, one in enumerate(fitted) for name, value in one.items()}


def surprisals(features: Tensor, reference: Reference) -> Tensor:
    """Features [n, turns, d] → [n, 1] for all rotations together, or [n, turns]."""
    if near := part(reference, "neighbours"):
        return neighbour_distance(features.flatten(1), near)[:, None]
    under_own = ((x, part(reference, str(turn))) for turn, x in enumerate(features.unbind(1)))
    return torch.stack([mixture(x, one) if "weights" in one else gaussian(x, one) for x, one in under_own], 1)


def side_by_side(surprisals: Tensor, doubts: Tensor) -> Tensor:
    """The parts of the score: surprisals [..., k], then the head's doubts [..., turns, 2]."""
    return torch.cat([surprisals, doubts.flatten(-2)], -1)


def classified(logits: Tensor, label: Tensor) -> Pair:
    """Logits [n, ..., k] and labels [n] → scores of the right class [m] and of the others [m, k − 1]."""
    k = logits.shape[-1]
    logits, label = logits.reshape(-1, k), label.repeat_interleave(logits[..., 0].numel() // len(label))
    right = F.one_hot(label, k).bool()
    return logits[right], logits[~right].view(-1, k - 1)
