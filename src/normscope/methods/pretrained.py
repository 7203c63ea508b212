"""Surprisal of what an encoder sees that learnt from ImageNet: of the whole image, and of its strangest place."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from normscope.networks.pretrained import LITE0, Frozen, Looks
from normscope.scoring.held_out import held_out
from normscope.scoring.local import MOST_MAPS, columns, fit_heat, heat, hottest, local_surprisal, some_channels
from normscope.scoring.surprisal import beneath, fit_gaussian, gaussian
from normscope.training.batches import Sample
from normscope.training.method import Batches, Method


@dataclass(frozen=True)
class Settings:
    """`encoder` is efficientnet-lite0 or a name that timm knows; `weights` is a file of its weights, else the published
    ones are taken. Images smaller than `side` are enlarged to it."""

    encoder: str = LITE0
    weights: str = ""
    side: int = 160
    channels: int = 100
    references: int = 5000
    local_references: int = MOST_MAPS
    batch_size: int = 256


class Pretrained(Method):
    """Surprisal of an ImageNet encoder's features, of the whole image and of its strangest place; nothing is trained.

    The code is the encoder's last map, averaged over the image and scaled to length 1; its reference is a Gaussian with
    shrunk covariance. The finer maps, side by side at 1/8 of the image, have a Gaussian for every location (PaDiM,
    Defard et al. 2021; `channels` of all channels are drawn at random, as there). The score is a weighted mean of the
    surprisal of the code and that of the strangest location, each on the scale of normal images that its reference was
    not fitted to; the weights follow from how alike the normal images are (`weights_of`). At most `references` images
    make the reference; a budget has nothing to limit. What the encoder makes of an image is kept while fitting, a
    gigabyte at most.
    """

    largest_auto = 224
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        self.encoder = Frozen(settings.encoder, settings.side)
        self.looks: Looks | None = None

    def begin(self) -> None:
        self.encoder.restore(self.settings.weights)
        self.looks = Looks()

    def end(self) -> None:
        self.looks = None

    def look(self, images: Tensor) -> Sequence[Tensor]:
        """Code [n, d] and local columns [n, c, h, w]; during a fit, each image goes through the encoder once."""
        return self.looks(self.encode, images) if self.looks else self.encode(images)

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        *local, last = self.encoder(images)
        maps = columns(local, local[1].shape[2:])[:, self.memory["channels"]]
        return F.normalize(last.mean((2, 3)), dim=1), maps

    def finish(self, batches: Batches) -> None:
        s = self.settings
        lots = torch.rand(sum(len(images) for images in batches))
        least = lots.sort(descending=True).values[: s.references][-1]
        if not self.memory:
            *local, _ = self.encoder(next(iter(batches))[:1])
            total = sum(maps.shape[1] for maps in local)
            self.memory["channels"] = some_channels(total, s.channels).to(local[0].device)
        codes, maps, done = Sample(s.references), Sample(s.local_references), 0
        for images in batches:
            chosen = lots[done : done + len(images)] >= least
            done += len(images)
            if chosen.any():
                code, local = self.look(images[chosen.to(images.device)])
                codes.add(code)
                maps.add(local)
        usual = held_out(codes.rows, fit_gaussian, gaussian)
        self.memory |= {f"code.{name}": value for name, value in fit_gaussian(codes.rows).items()}
        self.memory |= {"code.usual": usual.mean(), "code.deviation": usual.std() + 1e-6}
        self.memory |= {f"local.{name}": value for name, value in fit_heat(maps.rows).items()}
        self.memory["weights"] = weights_of(codes.rows)

    def code(self, images: Tensor) -> Tensor:
        return self.look(images)[0]

    def score(self, images: Tensor) -> Tensor:
        code, maps = self.look(images)
        whole, local = beneath(self.memory, "code."), beneath(self.memory, "local.")
        surprisal = (gaussian(code, whole) - whole["usual"]) / whole["deviation"]
        strangest = hottest(local_surprisal(maps, local)) - local["strangest.mean"]
        return torch.stack([surprisal, strangest / local["strangest.deviation"]], 1) @ self.memory["weights"]

    def explain(self, images: Tensor) -> Tensor:
        """Surprisal of every location, enlarged to the image; 99 of 100 normal images are below 1 everywhere."""
        return heat(self.look(images)[1], beneath(self.memory, "local."), images.shape[-2:])


def weights_of(codes: Tensor) -> Tensor:
    """How much the whole image counts and how much its strangest place: [2], of sum 1.

    Pictures of one thing from one place are alike, and what is wrong with such a thing is at some place in it; where
    normal pictures differ from each other, as those of dogs do, an anomaly is another kind of thing. The mean cosine of
    two normal codes says which it is, without a label.
    """
    alike = codes.mean(0).square().sum().clamp(0, 1)
    odds = torch.stack([1 - alike, alike]).square()
    return odds / odds.sum()
