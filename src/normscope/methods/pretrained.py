"""Surprisal of what an encoder sees that learnt from ImageNet: of the whole image, and of its hottest location."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from normscope.networks.pretrained import LITE0, Frozen
from normscope.scoring.local import MOST_MAPS, columns, fit_heat, heat, hottest, local_surprisal, random_channels
from normscope.scoring.reservoir import Reservoir
from normscope.scoring.surprisal import fit_gaussian, gaussian
from normscope.scoring.two_fold import two_fold
from normscope.training.method import Batches, Method, Reference, part


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


class Pretrained(Method):
    """Surprisal of an ImageNet encoder's features, of the whole image and of its hottest location; nothing is trained.

    The code is the encoder's last map, averaged over the image and scaled to length 1; its reference is a Gaussian with
    shrunk covariance. The finer maps, side by side at 1/8 of the image, have a Gaussian for every location (PaDiM,
    Defard et al. 2021; `channels` of all channels are drawn at random, as there). The score is a weighted mean of the
    surprisal of the code and that of the hottest location, each on the scale of two-fold scores of the normal images;
    the weights follow from how alike these are (`weights_of`). At most `references` images make the reference; a
    budget has nothing to limit.
    """

    explains = True
    has_codes = True
    largest_auto = 224
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        self.encoder = Frozen(settings.encoder, max(settings.side, shape[-1]))

    @property
    def most_references(self) -> int:
        return self.settings.references

    def load_pretrained(self) -> None:
        self.encoder.restore(self.settings.weights)

    def encode(self, images: Tensor) -> Tensor:
        """The code [n, d] and the finer maps, side by side at 1/8 of the image [n, c, h, w], as [n, d + c·h·w]."""
        *local, last = self.encoder(images)
        maps = columns(local, local[1].shape[2:])
        return torch.cat([F.normalize(last.mean((2, 3)), dim=1), maps.flatten(1)], 1)

    def code(self, encoded: Tensor) -> Tensor:
        return encoded[:, : self.encoder.shapes[-1][0]]

    def maps(self, encoded: Tensor, channels: Tensor) -> Tensor:
        """[n, c, h, w]: these channels of the finer maps."""
        return encoded[:, self.encoder.shapes[-1][0] :].unflatten(1, (-1, *self.encoder.shapes[1][1:]))[:, channels]

    def finish(self, batches: Batches) -> Reference:
        s = self.settings
        channels = random_channels(sum(shape[0] for shape in self.encoder.shapes[:-1]), s.channels)
        codes, maps = Reservoir(s.references), Reservoir(s.local_references)
        for encoded in batches:
            codes.add(self.code(encoded))
            maps.add(self.maps(encoded, channels.to(encoded.device)))
        usual = two_fold(codes.rows, fit_gaussian, gaussian)
        return {
            "channels": channels.to(codes.rows.device),
            **{f"code.{name}": value for name, value in fit_gaussian(codes.rows).items()},
            **{"code.usual": usual.mean(), "code.deviation": usual.std() + 1e-6},
            **{f"local.{name}": value for name, value in fit_heat(maps.rows).items()},
            "weights": weights_of(codes.rows),
        }

    def score(self, encoded: Tensor, reference: Reference) -> Tensor:
        whole, local = part(reference, "code"), part(reference, "local")
        surprisal = (gaussian(self.code(encoded), whole) - whole["usual"]) / whole["deviation"]
        hot = hottest(local_surprisal(self.maps(encoded, reference["channels"]), local)) - local["hottest.mean"]
        return torch.stack([surprisal, hot / local["hottest.deviation"]], 1) @ reference["weights"]

    def explain(self, encoded: Tensor, reference: Reference) -> Tensor:
        """Surprisal of every location; 99 of 100 normal images are below 1 everywhere."""
        return heat(self.maps(encoded, reference["channels"]), part(reference, "local"))


def weights_of(codes: Tensor) -> Tensor:
    """How much the whole image counts and how much its hottest location: [2], of sum 1.

    Pictures of one thing from one place are alike, and what is wrong with such a thing is at some place in it; where
    normal pictures differ from each other, as those of dogs do, an anomaly is another kind of thing. The mean cosine of
    two normal codes says which it is, without a label.
    """
    alike = codes.mean(0).square().sum().clamp(0, 1)
    odds = torch.stack([1 - alike, alike]).square()
    return odds / odds.sum()
