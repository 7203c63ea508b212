"""Surprisal of what an encoder sees that learnt from ImageNet: of an image, of its hottest location, of defects."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from normscope.images.size import SMALL
from normscope.networks.pretrained import LITE0, Frozen, two_sizes, unit_code
from normscope.scoring.combination import FALSE_ALARMS, combined, share_found, weights_of
from normscope.scoring.defects import fit_head, hottest, logits, rows_at
from normscope.scoring.local import (
    MOST_MAPS,
    USUAL,
    columns,
    fit_local,
    local_surprisal,
    random_channels,
    smooth,
    with_neighbours,
)
from normscope.scoring.local import hottest as hottest_location
from normscope.scoring.surprisal import fit_gaussians, gaussians
from normscope.scoring.survival import fit_survival, survival
from normscope.scoring.two_fold import two_fold_pair
from normscope.training.method import Batches, Method, Reference, part
from normscope.views.defects import defective

MOST_DEFECTIVE = 400  # images that self-made defects are drawn into
MOST_LOCATIONS = 2048  # that have a Gaussian of their own
ROWS = 150  # of an image, at most, for the head
TOGETHER = 8  # images whose pixels or fine maps are worked on at once
WARMTH = 0.04  # of log odds of a defect beside log surprisal in the log of heat, times the ratio of their weights
PARTS = ("the whole image", "its hottest location", "what looks like a self-made defect")
REGIONS = 12  # side by side in a heat map: log odds are averaged over one of them
COVERED = 0.15  # share of a location that a defect must cover to count as one


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
    shrunk covariance. Small images are enlarged to two sizes, and have a code and a reference for each. The maps at 1/8
    and 1/16, side by side, have a Gaussian for every location (PaDiM, Defard et al. 2021; `channels` of all channels
    are drawn at random, as there). A small head tells locations of normal images from those of self-made defects
    (`views/defects.py`) by all maps and by the surprisal of the location: the objective's third term with
    pseudo-anomalies.

    Each part's score becomes a surprisal in nats, −log of the share of normal images that reach it, by two-fold
    scores; the score of an image is that of a weighted mean of these p-values (`scoring/combination.py`). The weights
    follow from how alike normal images are and how many self-made defects each part finds: nothing is chosen by a
    label. At most `references` images make the reference; a budget has nothing to limit.
    """

    explains = True
    scaled_heat = True
    has_codes = True
    rectangles = True
    largest_auto = 448
    pixels_auto = 2**26  # of 334 images at the largest side
    enlarge_auto = 1.5  # the head sees smaller defects
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        self.encoder = Frozen(settings.encoder, settings.side, shape[1:])
        self.sizes = two_sizes(settings.side, shape[1:]) if min(shape[1:]) <= SMALL else [self.encoder.size]
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
        """The codes of all sizes and the maps of the first, as they are one after the other."""
        *maps, last = self.encoder(images)
        codes = [unit_code(last), *self.encoder.codes(images, self.sizes[1:])]
        return torch.cat([*codes, *(one.flatten(1) for one in maps[-len(self.map_shapes) :])], 1)

    def encode_defective(self, images: Tensor) -> Tensor:
        """`encode` of the images with self-made defects; behind it their family, and the share of each location that
        they cover."""
        changed, where, family = defective(images)
        covered = F.adaptive_avg_pool2d(where[:, None].float(), (self.map_shapes[0][1], self.map_shapes[0][2]))
        return torch.cat([self.encode(changed), family[:, None], covered.flatten(1)], 1)

    @property
    def code_length(self) -> int:
        """Of one size."""
        return self.encoder.shapes[-1][0]

    def code(self, encoded: Tensor) -> Tensor:
        return encoded[:, : len(self.sizes) * self.code_length].float()

    def all_maps(self, encoded: Tensor) -> list[Tensor]:
        """[n, c, h, w] of every scale."""
        lengths = [len(self.sizes) * self.code_length, *(math.prod(shape) for shape in self.map_shapes)]
        pieces = encoded[:, : sum(lengths)].split(lengths, 1)[1:]
        return [one.unflatten(1, shape).float() for one, shape in zip(pieces, self.map_shapes, strict=True)]

    def maps(self, encoded: Tensor, channels: Tensor) -> Tensor:
        """[n, c, h, w]: these channels of the maps at 1/8 and 1/16, side by side.

        Averaged over 3 × 3 locations where defects are looked for: what is a little out of place differs less.
        """
        coarse = self.all_maps(encoded)[-2:]
        if self.has_head:
            coarse = [with_neighbours(one) for one in coarse]
        return columns(coarse, grid_of(coarse[0].shape[2:]))[:, channels]

    def finish(self, batches: Batches) -> Reference:
        s = self.settings
        studied = spread(len(batches), s.local_references)
        channels = random_channels(sum(shape[0] for shape in self.encoder.shapes[1:-1]), s.channels)
        codes = torch.cat([self.code(encoded) for encoded in batches])
        maps = torch.cat([self.maps(encoded, channels) for encoded in batches.subset(studied)])
        places = spread(len(studied), MOST_DEFECTIVE) if self.has_head else np.arange(0)
        drawn_in = studied[places]
        changed = batches.subset(drawn_in).through(self.encode_defective)
        changed_codes = [self.code(encoded) for encoded in changed]
        changed_maps = [self.maps(encoded, channels) for encoded in changed]
        fit, surprisal = partial(fit_gaussians, d=self.code_length), partial(gaussians, d=self.code_length)
        whole = [one.sum(1) for one in two_fold_pair(codes, changed_codes, drawn_in, fit, surprisal)]
        normal, defects = two_fold_pair(maps, changed_maps, places, fit_local, local_surprisal)
        local = {**fit_local(maps), "hot": hottest_location(normal).quantile(USUAL)}
        parts = {
            "code": Part(fit(codes), *whole),
            "local": Part(local, hottest_location(normal), hottest_location(defects)),
        }
        at_defects = normal[torch.from_numpy(places).to(normal.device)]
        head = self.fit_defects(batches.subset(drawn_in), at_defects, changed, defects) if self.has_head else None
        if head:
            parts["head"] = head.part
        found = torch.stack([share_found(one.normal, one.defects) for one in parts.values()]) if head else None
        reference = {"channels": channels, "weights": weights_of(codes[:, : self.code_length], found)}
        if head and found is not None:
            warmth = WARMTH * reference["weights"][2] / reference["weights"][1]
            hot = peak(log_heat(head.odds, at_defects, warmth)).quantile(USUAL)
            reference |= {"found": found, "head.warmth": warmth, "head.hot": hot}
        for name, one in parts.items():
            fitted = {**one.reference, **fit_survival(one.normal[:, None])}
            reference |= {f"{name}.{key}": value for key, value in fitted.items()}
        return reference

    def fit_defects(self, normal: Batches, surprisal: Tensor, changed: Batches, defects: Tensor) -> "Head | None":
        """The head, and its scores of images without and with defects when fitted to those with the other family of
        defects; None if no defect can be seen.

        `surprisal` and `defects` are the two-fold surprisals [n, h, w] of the locations of both.
        """
        rows, positives, families = list[Tensor](), list[Tensor](), list[Tensor]()
        pairs = zip(beside(normal, surprisal), beside(changed, defects), strict=True)
        for (encoded, usual), (encoded_defects, unusual) in pairs:
            maps, (family, covered) = self.evidence(encoded_defects, unusual), self.drawn(encoded_defects)
            far = F.max_pool2d(covered[:, None], 5, 1, 2)[:, 0] == 0
            anywhere = rows_at(self.evidence(encoded, usual), torch.ones_like(far), ROWS)
            rows += map(torch.cat, zip(anywhere, rows_at(maps, far, ROWS), strict=True))
            positives += rows_at(maps, covered > COVERED, ROWS)
            families.append(family)
        fold = torch.cat(families).cpu().numpy()
        if not all(any(len(positives[i]) for i in np.flatnonzero(fold == one)) for one in (0, 1)):
            return None

        def fitted(indices: npt.NDArray[np.intp]) -> Reference:
            return fit_head(torch.cat([rows[i] for i in indices]), torch.cat([positives[i] for i in indices]))

        scores = torch.empty(2, len(rows)).to(surprisal)
        odds = torch.empty(len(rows), *self.map_shapes[0][1:]).to(surprisal)
        for one in (0, 1):
            own, head = np.flatnonzero(fold == one), fitted(np.flatnonzero(fold != one))
            at = torch.from_numpy(own).to(surprisal.device)
            odds[at] = self.defect_maps(normal.subset(own), surprisal[at], head)
            scores[0, at] = hottest(odds[at])
            scores[1, at] = hottest(self.defect_maps(changed.subset(own), defects[at], head))
        return Head(Part(fitted(np.arange(len(rows))), *scores), odds)

    def defect_maps(self, images: Batches, surprisal: Tensor, head: Reference) -> Tensor:
        """`defect_map` of all batches."""
        return torch.cat([self.defect_map(encoded, one, head) for encoded, one in beside(images, surprisal)])

    def evidence(self, encoded: Tensor, surprisal: Tensor) -> list[Tensor]:
        """What the head judges locations by, [n, c, h, w] of several scales: the maps, and the surprisal [n, h, w] of
        locations by themselves and with their neighbours."""
        return [*self.all_maps(encoded), torch.stack([surprisal, smooth(surprisal)], 1).clamp(min=1e-3).log()]

    def defect_map(self, encoded: Tensor, surprisal: Tensor, head: Reference) -> Tensor:
        """[n, h, w]: log odds of a defect at every location; few images at a time, for their fine maps are large."""
        few = zip(encoded.split(TOGETHER), surprisal.split(TOGETHER), strict=True)
        return torch.cat([logits(self.evidence(*pair), head) for pair in few])

    def drawn(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """What `encode_defective` has behind the rest: the family [n], and the share [n, h, w] that defects cover."""
        grid = self.map_shapes[0][1:]
        behind = encoded[:, -math.prod(grid) - 1 :].float()
        return behind[:, 0], behind[:, 1:].unflatten(1, grid)

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
        surprisal = local_surprisal(self.maps(encoded, reference["channels"]), part(reference, "local"))
        scores = {
            "code": gaussians(self.code(encoded), part(reference, "code"), self.code_length).sum(1),
            "local": hottest_location(surprisal),
        }
        if head := part(reference, "head"):
            scores["head"] = hottest(self.defect_map(encoded, surprisal, head))
        nats = torch.cat([survival(one[:, None], part(reference, name)) for name, one in scores.items()], 1)
        return combined(nats, reference["weights"])

    def explain(self, encoded: Tensor, reference: Reference) -> Tensor:
        """How far every location is from normal; 99 of 100 normal images are below 1 everywhere."""
        local, head = part(reference, "local"), part(reference, "head")
        surprisal = local_surprisal(self.maps(encoded, reference["channels"]), local)
        if not head:
            return smooth(surprisal) / local["hot"]
        heat = log_heat(self.defect_map(encoded, surprisal, head), surprisal, head["warmth"])
        return (heat - head["hot"]).exp()


class Part(NamedTuple):
    """One of the scores: what is fitted, and scores [n] of normal images and of those with self-made defects, by what
    was fitted to others."""

    reference: Reference
    normal: Tensor
    defects: Tensor


class Head(NamedTuple):
    """The part that looks for self-made defects, and its log odds [n, h, w] at locations of normal images."""

    part: Part
    odds: Tensor


def log_heat(odds: Tensor, surprisal: Tensor, warmth: Tensor) -> Tensor:
    """Of log odds of a defect [n, h, w], and of the surprisal of locations at a coarser grid."""
    fine = F.interpolate(smooth(surprisal)[:, None], odds.shape[1:], mode="bilinear", align_corners=False)[:, 0]
    width = min(odds.shape[1:]) // REGIONS // 2 * 2 + 1
    return warmth * smooth(odds, width) + fine.clamp(min=1e-3).log()


def peak(maps: Tensor) -> Tensor:
    """[n, h, w] → [n]."""
    return maps.flatten(1).amax(1)


def beside(batches: Batches, values: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Each batch, and of values [n, ...] those of its images."""
    start = 0
    for batch in batches:
        yield batch, values[start : start + len(batch)]
        start += len(batch)


def spread(n: int, most: int) -> npt.NDArray[np.intp]:
    """At most so many of n positions, at equal distances."""
    return np.arange(n) if n <= most else np.arange(most) * n // most


def grid_of(size: torch.Size) -> tuple[int, int]:
    """The grid of the local Gaussians: that of the map, halved until there are few enough locations."""
    height, width = size
    while height * width > MOST_LOCATIONS:
        height, width = math.ceil(height / 2), math.ceil(width / 2)
    return height, width
