"""The paper's extension model: Algorithms 3 to 5 of Ye et al., Deep Unsupervised Image Anomaly Detection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from normscope.networks.amdim import LocalProjector, encoder
from normscope.objective import Entropy, Information
from normscope.objective.critics import contrast, contrast_each, dot, global_to_each, global_to_local
from normscope.objective.entropy import laplace
from normscope.objective.information import infonce
from normscope.objective.trade_off import Beta, TradeOff
from normscope.scoring.local import MOST_MAPS, fit_heat, heat, random_channels
from normscope.scoring.norm import norm_with_local
from normscope.scoring.reservoir import Reservoir
from normscope.training.device import full_precision
from normscope.training.method import Batch, Batches, Method, Phase, Record, Reference
from normscope.training.steps import spread, update
from normscope.views.augment import Recipe, random_view


@dataclass(frozen=True)
class Settings(Recipe):
    """The paper's values. It leaves open: batch size, views, the norm's scale, batch norm, initialisation."""

    beta: Beta = 20.0
    beta_ramp: float = 0.0
    information: Information = infonce
    entropy: Entropy = laplace
    local: Literal["sum", "each"] = "sum"
    clip_scale: Literal["size", "root"] = "size"
    encoder: Literal["small", "big", "medium", "slim", "tiny"] = "small"
    output_norm: bool = False
    initialisation: Literal["kaiming", "zero"] = "kaiming"
    learning_rate: float = 2e-4
    epochs: int = 400
    batch_size: int = 64


class Extension(Method):
    """The paper's extension model: the base model with a second critic between the code and a 5×5 local map.

    `local` sum is the paper: a map's similarity is summed over its locations. `each` is AMDIM: every location is a
    positive of its own against all locations of other images, which alone trains single locations. The norm of a map
    is the mean over its locations; the paper does not say whether it is that or their sum.
    """

    explains = True
    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s = settings
        net = encoder(s.encoder, shape[0], s.output_norm, s.initialisation)
        projector = LocalProjector(net.local_channels, net.code_size, s.output_norm, s.initialisation)
        self.networks = nn.ModuleDict({"encoder": net, "projector": projector})
        self.scale = float(net.code_size) ** (1.0 if s.clip_scale == "size" else 0.5)
        self.trade_off = TradeOff(s.information, s.beta, s.beta_ramp, critics=2)

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, self.settings.batch_size)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        return {"networks": Adam(self.networks.parameters(), self.settings.learning_rate)}

    def represent(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Global code [n, d] and projected local map [n, d, 5, 5]."""
        code, local = self.networks["encoder"](images)
        return code, self.networks["projector"](local)

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        """Algorithm 4, one minibatch; its two halves of g against l are the two halves of the 2N rows here."""
        images = batch.normal
        views = torch.cat([random_view(images, self.settings), random_view(images, self.settings)])
        g, local = self.represent(views)
        with full_precision(g.device):
            g, local = g.float(), local.float()
            if self.settings.local == "sum":
                to_local = contrast(global_to_local(g, local, self.scale))
            else:
                to_local = contrast_each(global_to_each(g, local, self.scale))
            locations = local.flatten(2).transpose(1, 2).flatten(0, 1)
            entropy = self.settings.entropy(g) + self.settings.entropy(locations)
            loss, record = self.trade_off([contrast(dot(g, g, self.scale)), to_local], entropy, progress)
        update(optimizers["networks"], loss)
        return {**record, "spread": spread(g)}

    def code(self, images: Tensor) -> Tensor:
        return self.represent(images)[0]

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        """Algorithm 5."""
        return norm_with_local(*self.represent(images), self.scale)

    def finish(self, batches: Batches) -> Reference:
        """What the map looks like at each location of normal images; the score makes no use of it."""
        maps, channels = Reservoir(MOST_MAPS), random_channels(cast(int, self.networks["encoder"].local_channels))
        for images in batches:
            maps.add(self.local(images, channels))
        return {"channels": channels, **fit_heat(maps.rows)}

    def local(self, images: Tensor, channels: Tensor) -> Tensor:
        """[n, c, 5, 5]: the map before the projector, which need not keep what a location looks like."""
        return self.networks["encoder"](images).local[:, channels]

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """Surprisal of every location; 99 of 100 normal images are below 1 everywhere.

        The paper has no heat map: this is not its score taken apart, but what its encoder sees at each location.
        """
        return heat(self.local(images, reference["channels"]), reference)
