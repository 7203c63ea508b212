"""Surprisal of what an encoder sees that learnt from ImageNet: of the whole image, and of its hottest location."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from normscope.networks.pretrained import LITE0, Frozen
from normscope.scoring.defects import fit_head, hottest, logits, rows_at
from normscope.scoring.local import MOST_MAPS, USUAL, columns, fit_local, local_surprisal, random_channels, smooth
from normscope.scoring.surprisal import fit_gaussian, gaussian
from normscope.scoring.survival import fit_survival, survival
from normscope.scoring.two_fold import two_fold_pair
from normscope.training.method import Batches, Method, Reference, part
from normscope.views.defects import defective

SMALL = 64  # pixels on the shorter side: an image of so few is of one thing, and what is wrong with it is no small spot
MOST_DEFECTIVE = 400  # images that self-made defects are drawn into
MOST_LOCATIONS = 2048  # that have a Gaussian of their own
ROWS = 150  # of an image, at most, for the head
TOGETHER = 8  # images whose pixels or fine maps are worked on at once
HEDGE = 0.25  # 0 would add the parts' surprisals, 1 takes about the highest of them
COLD = 10.0  # nats below what is hot: nothing of a defect
PARTS = ("the whole image", "its hottest location", "what looks like a self-made defect")
COVERED = 0.15  # share of a location that a defect must cover to count as one
FALSE_ALARMS = 0.05  # at which self-made defects are counted as found


@dataclass(frozen=True)
class Settings:
    """`encoder` is efficientnet-lite0, -lite1 or -lite2, or a name that timm knows; `weights` is a file of its weights,
    else the published ones are taken. Images smaller than `side` are enlarged to it. `defects` says whether a head
    learns from self-made ones; auto: where images have more than 64 pixels a side."""

    encoder: str = LITE0
    weights: str = ""
    side: int = 160
    channels: int = 100
    references: int = 5000
    local_references: int = MOST_MAPS
    defects: Literal["auto", "yes", "no"] = "auto"


class Pretrained(Method):
    """Surprisal of an ImageNet encoder's features: of the whole image, of its hottest location, of self-made defects.

    The code is the encoder's last map, averaged over the image and scaled to length 1; its reference is a Gaussian with
    shrunk covariance. The maps at 1/8 and 1/16, side by side, have a Gaussian for every location (PaDiM, Defard et al.
    2021; `channels` of all channels are drawn at random, as there). A small head tells locations of normal images from
    those of self-made defects (`views/defects.py`): the objective's third term with pseudo-anomalies.

    Each part's score becomes a surprisal in nats, −log of the share of normal images that reach it, by two-fold
    scores; the score of an image is that of a weighted mean of these p-values (of their powers −¼: between the
    geometric and the harmonic mean; Vovk & Wang 2020). The weights follow from how alike normal images are and how
    many self-made defects each part finds (`weights_of`): nothing is chosen by a label. At most `references` images
    make the reference; a budget has nothing to limit.
    """

    explains = True
    scaled_heat = True
    has_codes = True
    rectangles = True
    largest_auto = 448
    pixels_auto = 2**26  # of 334 images at the largest side
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        self.encoder = Frozen(settings.encoder, settings.side, shape[1:])
        self.has_head = settings.defects == "yes" or (settings.defects == "auto" and min(shape[1:]) > SMALL)

    @property
    def most_references(self) -> int:
        return self.settings.references

    def load_pretrained(self) -> None:
        self.encoder.restore(self.settings.weights)

    @property
    def map_shapes(self) -> list[torch.Size]:
        """(c, h, w) of the maps that are encoded, the finest first: that one is for the head alone."""
        return self.encoder.shapes[0 if self.has_head else 1 : -1]

    def encode(self, images: Tensor) -> Tensor:
        """The code [n, d] and the maps, as they are one after the other."""
        *maps, last = self.encoder(images)
        kept = maps[-len(self.map_shapes) :]
        return torch.cat([F.normalize(last.mean((2, 3)), dim=1), *(one.flatten(1) for one in kept)], 1)

    def encode_defective(self, images: Tensor) -> Tensor:
        """`encode` of the images with self-made defects; behind it the share of each location that these cover."""
        changed, where = defective(images)
        covered = F.adaptive_avg_pool2d(where[:, None].float(), (self.map_shapes[0][1], self.map_shapes[0][2]))
        return torch.cat([self.encode(changed), covered.flatten(1)], 1)

    def code(self, encoded: Tensor) -> Tensor:
        return encoded[:, : self.encoder.shapes[-1][0]].float()

    def all_maps(self, encoded: Tensor) -> list[Tensor]:
        """[n, c, h, w] of every scale."""
        lengths = [self.encoder.shapes[-1][0], *(math.prod(shape) for shape in self.map_shapes)]
        pieces = encoded[:, : sum(lengths)].split(lengths, 1)[1:]
        return [one.unflatten(1, shape).float() for one, shape in zip(pieces, self.map_shapes, strict=True)]

    def maps(self, encoded: Tensor, channels: Tensor) -> Tensor:
        """[n, c, h, w]: these channels of the maps at 1/8 and 1/16, side by side."""
        coarse = self.all_maps(encoded)[-2:]
        return columns(coarse, grid_of(coarse[0].shape[2:]))[:, channels]

    def finish(self, batches: Batches) -> Reference:
        s = self.settings
        studied = spread(len(batches), s.local_references)
        channels = random_channels(sum(shape[0] for shape in self.encoder.shapes[1:-1]), s.channels)
        codes = torch.cat([self.code(encoded) for encoded in batches])
        maps = torch.cat([self.maps(encoded, channels) for encoded in batches.subset(studied)])
        drawn_in = studied[spread(len(studied), MOST_DEFECTIVE)] if self.has_head else studied[:0]
        changed = batches.subset(drawn_in).through(self.encode_defective)
        changed_codes = [self.code(encoded) for encoded in changed]
        changed_maps = [self.maps(encoded, channels) for encoded in changed]
        whole = two_fold_pair(codes, changed_codes, drawn_in, fit_gaussian, gaussian)
        local = two_fold_pair(maps, changed_maps, np.searchsorted(studied, drawn_in), fit_local, hottest_surprisal)
        parts = {"code": (fit_gaussian(codes), *whole), "local": (fit_local(maps), *local)}
        if self.has_head and (head := self.fit_defects(batches.subset(drawn_in), changed)):
            parts["head"] = head
        found = [seen(*scores) for _, *scores in parts.values()]
        reference = {"channels": channels, "found": torch.stack(found), "weights": weights_of(codes, found)}
        for name, (fitted, normal, _) in parts.items():
            scale = {"hot": normal.quantile(USUAL), **fit_survival(normal[:, None])}
            reference |= {f"{name}.{key}": value for key, value in {**fitted, **scale}.items()}
        return reference

    def fit_defects(self, normal: Batches, changed: Batches) -> tuple[Reference, Tensor, Tensor] | None:
        """The head, and its two-fold scores of the images without and with defects; None if no defect can be seen."""
        usual, unusual = list[Tensor](), list[Tensor]()
        for encoded, other in zip(normal, changed, strict=True):
            maps, covered = self.all_maps(other), self.covered(other)
            far = F.max_pool2d(covered[:, None], 5, 1, 2)[:, 0] == 0
            anywhere = rows_at(self.all_maps(encoded), torch.ones_like(far), ROWS)
            usual += map(torch.cat, zip(anywhere, rows_at(maps, far, ROWS), strict=True))
            unusual += rows_at(maps, covered > COVERED, ROWS)
        fold = np.arange(len(usual)) % 2
        if not all(any(len(unusual[i]) for i in np.flatnonzero(fold == one)) for one in (0, 1)):
            return None

        def fitted(indices: npt.NDArray[np.intp]) -> Reference:
            return fit_head(torch.cat([usual[i] for i in indices]), torch.cat([unusual[i] for i in indices]))

        scores = torch.empty(2, len(usual)).to(usual[0])
        for one in (0, 1):
            own, half = np.flatnonzero(fold == one), fitted(np.flatnonzero(fold != one))
            for row, images in enumerate((normal, changed)):
                scores[row, own] = torch.cat([self.hottest_defect(some, half) for some in images.subset(own)])
        return fitted(np.arange(len(usual))), scores[0], scores[1]

    def defect_map(self, encoded: Tensor, head: Reference) -> Tensor:
        """[n, h, w]: log odds of a defect at every location; few images at a time, for their fine maps are large."""
        return torch.cat([logits(self.all_maps(few), head) for few in encoded.split(TOGETHER)])

    def hottest_defect(self, encoded: Tensor, head: Reference) -> Tensor:
        return hottest(self.defect_map(encoded, head))

    def covered(self, encoded: Tensor) -> Tensor:
        """[n, h, w]: the share that a defect covers, behind what `encode` gives."""
        grid = self.map_shapes[0][1:]
        return encoded[:, -math.prod(grid) :].unflatten(1, grid).float()

    def summary(self, reference: Reference) -> str | None:
        counts = [
            f"{name} {100 * float(weight):.0f} %" for name, weight in zip(PARTS, reference["weights"], strict=False)
        ]
        text = f"what counts: {', '.join(counts)}"
        if "head.hot" not in reference:
            return text
        shares = [f"{100 * float(share):.0f} %" for share in reference["found"]]
        return f"{text}; of self-made defects these find {', '.join(shares)} at {100 * FALSE_ALARMS:.0f} % false alarms"

    def score(self, encoded: Tensor, reference: Reference) -> Tensor:
        local = part(reference, "local")
        scores = {
            "code": gaussian(self.code(encoded), part(reference, "code")),
            "local": hottest_surprisal(self.maps(encoded, reference["channels"]), local),
        }
        if head := part(reference, "head"):
            scores["head"] = self.hottest_defect(encoded, head)
        nats = torch.cat([survival(one[:, None], part(reference, name)) for name, one in scores.items()], 1)
        return (HEDGE * nats + reference["weights"].log()).logsumexp(1) / HEDGE

    def explain(self, encoded: Tensor, reference: Reference) -> Tensor:
        """How far every location is from normal; 99 of 100 normal images are below 1 everywhere."""
        local, head = part(reference, "local"), part(reference, "head")
        heat = smooth(local_surprisal(self.maps(encoded, reference["channels"]), local)) / local["hot"]
        if not head:
            return heat
        found = (1 + (smooth(self.defect_map(encoded, head)) - head["hot"]) / COLD).clamp(min=0)
        fine = F.interpolate(heat[:, None], found.shape[1:], mode="bilinear", align_corners=False)[:, 0]
        weight = reference["weights"][1:] / reference["weights"][1:].sum()
        return weight[0] * fine + weight[1] * found


def spread(n: int, most: int) -> npt.NDArray[np.intp]:
    """At most so many of n positions, at equal distances."""
    return np.arange(n) if n <= most else np.arange(most) * n // most


def grid_of(size: torch.Size) -> tuple[int, int]:
    """The grid of the local Gaussians: that of the map, halved until there are few enough locations."""
    height, width = size
    while height * width > MOST_LOCATIONS:
        height, width = math.ceil(height / 2), math.ceil(width / 2)
    return height, width


def hottest_surprisal(maps: Tensor, reference: Reference) -> Tensor:
    return smooth(local_surprisal(maps, reference)).flatten(1).amax(1)


def seen(normal: Tensor, changed: Tensor) -> Tensor:
    """The share of images with self-made defects that are above all but a few of the normal ones; 1 without any."""
    return (changed > normal.quantile(1 - FALSE_ALARMS)).float().mean() if len(changed) else torch.ones(()).to(normal)


def weights_of(codes: Tensor, found: list[Tensor]) -> Tensor:
    """How much the parts count, of sum 1: the whole image, its hottest location and, if there is one, the head.

    Pictures of one thing from one place are alike, and what is wrong with such a thing is at some place in it; where
    normal pictures differ from each other, as those of dogs do, an anomaly is another kind of thing. The mean cosine of
    two normal codes says which it is, without a label; and where there are self-made defects, each part counts by how
    many of them it finds: the head by half, for it learnt from defects of the same making.
    """
    alike = codes.mean(0).square().sum().clamp(0, 1)
    odds = torch.stack([1 - alike, alike]) ** 4
    odds = torch.cat([odds / odds.sum(), torch.ones(len(found) - 2).to(odds)])
    share = torch.stack(found) + 0.02
    share[2:] /= 2
    odds = odds * share
    return odds / odds.sum()
