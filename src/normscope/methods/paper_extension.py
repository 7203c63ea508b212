"""The paper's extension model: Algorithms 3 to 5 of Ye et al., Deep Unsupervised Image Anomaly Detection."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Optimizer

from normscope.objective.blocks import contrasted
from normscope.objective.critics import contrast_each, dot, global_to_each, global_to_local
from normscope.objective.trade_off import TradeOff
from normscope.scoring.local import MOST_MAPS, fit_heat, heat, random_channels
from normscope.scoring.norm import norm_ratio, norm_with_local, similarity_with_local
from normscope.scoring.reservoir import Reservoir
from normscope.training import paper
from normscope.training.data_parallel import data_parallel
from normscope.training.device import full_precision
from normscope.training.method import Batch, Batches, Method, Phase, Record, Reference
from normscope.training.paper import Reading
from normscope.training.steps import spread, update
from normscope.views.shifts import rotations

GRID = 5  # the side of the paper's local map; a larger one is averaged, for similarities are summed over locations


@dataclass(frozen=True)
class Settings(Reading):
    """`entropy_of` code is the paper's equation, both its Algorithm 4; `score` ori is Algorithm 5."""

    local: Literal["sum", "each"] = "sum"
    entropy_of: Literal["code", "both"] = "both"
    score: Literal["ratio", "ori"] = "ratio"


class Extension(Method):
    """The paper's extension model: the base model with a second critic between the code and a local map.

    `local` sum is the paper: a map's similarity is summed over its locations. `each` is AMDIM: every location is a
    positive of its own against all locations of other images, which alone trains single locations. The norm of a map
    is the mean over its locations; the paper does not say whether it is that or their sum. The local map of the paper's
    encoder has 5×5 locations; that of `encoder=resnet` has an eighth of the image's side, and 5×5 at most.

    Readings, the third term (of the code g) and `score` are those of `base`, with sim(g, g) + sim(g, l) for the norm.
    """

    explains = True
    scaled_heat = True
    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s, net = settings, paper.make_encoder(settings, shape)
        self.networks = nn.ModuleDict({"encoder": net, "projector": paper.make_projector(s, net)})
        self.code_size, self.scale = net.code_size, paper.clip_scale(s, net.code_size)
        self.trade_off = TradeOff(s.information, paper.beta_at(s, net.code_size), s.beta_ramp, critics=2)
        self.collapse_shows_in = paper.signs_of_collapse(s)

    def advice(self) -> str | None:
        return paper.advice(self.settings, self.code_size)

    def phases(self) -> list[Phase]:
        return paper.phases(self.settings)

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        return paper.optimizers(self.settings, self.networks.parameters())

    def represent(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Global code g [n, d] and projected local map l [n, d, h, w]."""
        code, local = self.networks["encoder"](images)
        if local.shape[-1] > GRID:
            local = F.adaptive_avg_pool2d(local, GRID)
        return code, self.networks["projector"](local)

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        """Algorithm 4, one minibatch, and the third term; its two halves of g against l are those of the 2N rows."""
        s = self.settings
        x, n = paper.views(s, batch.normal)
        codes, maps = data_parallel(self.represent, x)
        with full_precision(x.device):
            g, local, shifted = codes[:n].float(), maps[:n].float(), codes[n:].float()
            if s.local == "sum":
                to_local = contrasted(g, local, partial(global_to_local, scale=self.scale), s.information)
            else:
                to_local = contrast_each(global_to_each(g, local, self.scale))
            entropy = s.entropy(g)
            if s.entropy_of == "both":
                entropy = entropy + s.entropy(local.flatten(2).transpose(1, 2).flatten(0, 1))
            to_global = contrasted(g, g, partial(dot, scale=self.scale), s.information)
            loss, record = self.trade_off([to_global, to_local], entropy, progress)
            third = paper.third_term(s, g, shifted, self.scale, progress)
            loss = loss + third["loss"] if third else loss
        update(optimizers.values(), loss)
        return {**record, **third, "loss": loss, "spread": spread(g)}

    def code(self, images: Tensor) -> Tensor:
        return self.represent(images)[0]

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        if self.settings.score == "ori":
            return norm_with_local(*self.represent(images), self.scale)
        similarities = [similarity_with_local(*self.represent(x)) for x in rotations(images)]
        return norm_ratio(torch.stack(similarities, 1).clamp(min=0).sqrt())

    def finish(self, batches: Batches) -> Reference:
        """What the map looks like at each location of normal images; the score makes no use of it."""
        maps, channels = Reservoir(MOST_MAPS), random_channels(cast(int, self.networks["encoder"].local_channels))
        for images in batches:
            maps.add(self.local(images, channels))
        return {"channels": channels, **fit_heat(maps.rows)}

    def local(self, images: Tensor, channels: Tensor) -> Tensor:
        """[n, c, h, w]: the map before the projector, which need not keep what a location looks like."""
        return self.networks["encoder"](images).local[:, channels]

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """Surprisal of every location; 99 of 100 normal images are below 1 everywhere.

        The paper has no heat map: this is not its score taken apart, but what its encoder sees at each location.
        """
        return heat(self.local(images, reference["channels"]), reference)
