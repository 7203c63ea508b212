"""The paper's base model: Algorithms 1 and 2 of Ye et al., Deep Unsupervised Image Anomaly Detection."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from normscope.errors import SettingError
from normscope.networks.resnet import CodeResNet, layout
from normscope.objective.blocks import contrasted
from normscope.objective.critics import dot
from normscope.objective.trade_off import TradeOff
from normscope.scoring.local import MOST_MAPS, columns, fit_heat, heat, random_channels
from normscope.scoring.norm import norm, norm_ratio
from normscope.scoring.pair import pair
from normscope.scoring.reservoir import Reservoir
from normscope.scoring.rotated import fit_rotated, rotated_surprisal
from normscope.scoring.with_encoder import WithEncoder, frozen_encoder
from normscope.training import paper
from normscope.training.data_parallel import data_parallel
from normscope.training.device import full_precision
from normscope.training.method import Batch, Batches, Phase, Record, Reference, part, under
from normscope.training.paper import Reading
from normscope.training.steps import spread, update
from normscope.views.shifts import rotations

MOST_REFERENCES = 5000  # normal images that features are compared with
RATIO_SHARE = 0.5  # of a deviation of the ratio beside one of the surprisal of features
MOST_VALUES = 2**26  # of the views that one image is scored by: a quarter of a gigabyte


@dataclass(frozen=True)
class Settings(Reading):
    """`score` is Algorithm 2 for ori. `score_clip=false` leaves the soft clip out of rand and mc, as their equation.
    `pretrained` names an encoder as that of the method `pretrained`, which then gives half of score=surprisal."""

    pretrained: str = ""
    score: Literal["ratio", "surprisal", "ori", "rand", "mc"] = "ratio"
    score_pairs: int = 100
    score_clip: bool = True
    score_seed: int = 0


class Base(WithEncoder):
    """The paper's base model: InfoNCE between two views against the L1 norm of the codes; score = code's norm.

    Similarity is the raw dot product of Algorithm 1; the text speaks of normalised vectors, but then the score
    sim(z, z) would be constant. `clip_scale` c1 is the size of z as the paper has it, or its root as in AMDIM. The
    entropy `laplace` averages |z| over dimensions, which puts the losses on one scale at β = 20; `laplace_sum` is the
    other reading. docs/theory.md has which readings can work at all.

    The third term, which the paper derives and drops for want of anomalies, takes shifted views for them: their codes
    are kept short and the others long.

    `score`: ori is the norm of the code; ratio sets it against those of the image's own rotations; rand is the
    similarity of one pair of views; mc the sum over `score_pairs` of them. surprisal adds to the ratio how unusual the
    features of all stages are under Gaussians fitted to normal images, as in the method of that name.

    Heat maps, which the paper does not have, are what the encoder sees at each location, as in `surprisal`.
    """

    explains = True
    scaled_heat = True
    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        check_pairs(settings, shape)
        if settings.score == "surprisal" and settings.encoder != "resnet":
            raise SettingError(f"score=surprisal needs encoder=resnet, not {settings.encoder}; change one of them")
        if settings.pretrained and settings.score != "surprisal":
            raise SettingError(f"pretrained needs score=surprisal, not {settings.score}; change one of them")
        self.encoder = paper.make_encoder(settings, shape)
        self.scale = paper.clip_scale(settings, self.encoder.code_size)
        beta = paper.beta_at(settings, self.encoder.code_size)
        self.trade_off = TradeOff(settings.information, beta, settings.beta_ramp)
        self.collapse_shows_in = paper.signs_of_collapse(settings)
        self.frozen = frozen_encoder(settings.pretrained, shape)

    def advice(self) -> str | None:
        return paper.advice(self.settings, self.encoder.code_size)

    def export_obstacle(self) -> str | None:
        score = self.settings.score
        return f"score={score} draws views from a hash of the pixels" if score in ("rand", "mc") else None

    def phases(self) -> list[Phase]:
        return paper.phases(self.settings)

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        return paper.optimizers(self.settings, self.encoder.parameters())

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        """Algorithm 1, one minibatch, and the third term."""
        x, n = paper.views(self.settings, batch.normal)
        codes = data_parallel(self.encoder, x).code
        with full_precision(x.device):
            z, shifted = codes[:n].float(), codes[n:].float()
            pairs = contrasted(z, z, partial(dot, scale=self.scale), self.settings.information)
            loss, record = self.trade_off([pairs], self.settings.entropy(z), progress)
            third = paper.third_term(self.settings, z, shifted, self.scale, progress)
            loss = loss + third["loss"] if third else loss
        update(optimizers.values(), loss)
        return {**record, **third, "loss": loss, "spread": spread(z)}

    def code(self, encoded: Tensor) -> Tensor:
        return self.encoder(self.images(encoded)).code

    def represent(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features of all stages [n, 4, d] and the norm of the code [n, 4], for each rotation."""
        encoder = cast(CodeResNet, self.encoder)
        maps = [encoder.trunk.stages(x) for x in rotations(images)]
        norms = [encoder.from_local(last).code.norm(dim=1) for *_, last in maps]
        return torch.stack([layout(stages) for stages in maps], 1), torch.stack(norms, 1)

    def finish(self, batches: Batches) -> Reference:
        widths = self.encoder.trunk.widths if isinstance(self.encoder, CodeResNet) else [self.encoder.local_channels]
        rows, maps, channels = Reservoir(MOST_REFERENCES), Reservoir(MOST_MAPS), random_channels(sum(widths))
        for encoded in batches:
            images = self.images(encoded)
            maps.add(self.local(images, channels))
            if self.settings.score == "surprisal":
                features, norms = self.represent(images)
                rows.add(torch.cat([features, norms[:, :, None]], 2))
        local = {"channels": channels, **under("local", fit_heat(maps.rows))}
        return {**local, **self.fit_surprisal(rows.rows), **self.fit_encoder(batches)}

    def fit_surprisal(self, rows: Tensor) -> Reference:
        """Of features and norms [n, 4, d + 1]."""
        if self.settings.score != "surprisal":
            return {}
        ratio = norm_ratio(rows[:, :, -1])
        scale = {"ratio.mean": ratio.mean(), "ratio.deviation": ratio.std() + 1e-6}
        return {**scale, **under("features", fit_rotated(rows[:, :, :-1]))}

    def score(self, encoded: Tensor, reference: Reference) -> Tensor:
        s, images = self.settings, self.images(encoded)
        if s.score == "ori":
            return norm(self.code(images), self.scale)
        if s.score == "ratio":
            return norm_ratio(torch.stack([self.code(x).norm(dim=1) for x in rotations(images)], 1))
        if s.score == "surprisal":
            return self.half_each(self.learnt_surprisal(images, reference), encoded, reference)
        pairs = 1 if s.score == "rand" else s.score_pairs
        return pair(self.code, images, s, self.scale, pairs, s.score_seed, s.score_clip)

    def learnt_surprisal(self, images: Tensor, reference: Reference) -> Tensor:
        features, norms = self.represent(images)
        scale = part(reference, "ratio")
        ratio = (norm_ratio(norms) - scale["mean"].to(norms)) / scale["deviation"].to(norms)
        return rotated_surprisal(features, part(reference, "features")) + RATIO_SHARE * ratio

    def maps(self, images: Tensor) -> list[Tensor]:
        """Of all stages; the paper's encoder has but one."""
        if isinstance(self.encoder, CodeResNet):
            return self.encoder.trunk.stages(images)
        return [self.encoder(images).local]

    def local(self, images: Tensor, channels: Tensor) -> Tensor:
        """These channels of all maps, side by side at the grid of the middle one: [n, c, h, w]."""
        maps = self.maps(images)
        return columns(maps, maps[len(maps) // 2].shape[2:])[:, channels]

    def explain(self, encoded: Tensor, reference: Reference) -> Tensor:
        """Surprisal of every location; 99 of 100 normal images are below 1 everywhere."""
        return heat(self.local(self.images(encoded), reference["channels"]), part(reference, "local"))


def check_pairs(settings: Settings, shape: tuple[int, int, int]) -> None:
    """All views of an image are in memory at a time."""
    most = MOST_VALUES // (2 * math.prod(shape))
    if settings.score == "mc" and settings.score_pairs > most:
        _, height, width = shape
        raise SettingError(f"score_pairs is {settings.score_pairs}; at {height}x{width} pixels give {most} at most")
