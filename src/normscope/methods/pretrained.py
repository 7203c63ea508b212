"""Surprisal of what an encoder sees that learnt from ImageNet: of an image, of its hottest location, of defects."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from normscope.images.size import SMALL
from normscope.networks.pretrained import LITE0, Frozen, unit_code
from normscope.scoring.combination import FALSE_ALARMS, combined, share_found, weights_of
from normscope.scoring.defect_maps import Fitted, Pairs, defect_map, fit_defects, with_defects
from normscope.scoring.defects import hottest
from normscope.scoring.held_out import held_out, held_out_pair, random_folds
from normscope.scoring.layout import Layout
from normscope.scoring.local import (
    MOST_MAPS,
    USUAL,
    columns,
    fit_local,
    left_out_surprisal,
    local_surprisal,
    log_heat,
    peak,
    random_channels,
    smooth,
    with_neighbours,
)
from normscope.scoring.local import hottest as hottest_location
from normscope.scoring.surprisal import fit_gaussian, gaussian, left_out_gaussian
from normscope.scoring.survival import fit_survival, survival
from normscope.training.method import Batches, Method, Reference, part, under

MOST_DEFECTIVE, MOST_TIMES = 800, 6  # images that self-made defects are drawn into; few of them more than once
MOST_LOCATIONS = 2048  # that have a Gaussian of their own
WARMTH = 0.08  # of log odds of a defect beside log surprisal in the log of heat, times the ratio of their weights
PARTS = ("the whole image", "its hottest location", "what looks like a self-made defect")

Indices = npt.NDArray[np.intp]


class Locations(NamedTuple):
    """Of every location its surprisal [n, h, w], and at a finer grid the log odds of a defect, if there are heads."""

    surprisal: Tensor
    odds: Tensor | None


@dataclass(frozen=True)
class Settings:
    """`encoder` is efficientnet-lite0, -lite1 or -lite2, or a name that timm knows; `weights` is a file of its weights,
    else the published ones are taken. Images smaller than `side` are enlarged to it. `defects` says whether heads
    learn from self-made ones; auto: where images have more than 64 pixels a side."""

    encoder: str = LITE0
    weights: str = ""
    side: int = 192
    channels: int = 100
    references: int = 5000
    local_references: int = MOST_MAPS
    defects: Literal["auto", "yes", "no"] = "auto"


class Pretrained(Method):
    """Surprisal of an ImageNet encoder's features: of the whole image, of its hottest location, of self-made defects.

    The code is the encoder's last map, averaged over the image and scaled to length 1; its reference is a Gaussian with
    shrunk covariance. The maps at 1/8 and 1/16, side by side, have a Gaussian for every location (PaDiM, Defard et al.
    2021; `channels` of all channels are drawn at random, as there). Small heads tell locations of normal images from
    those of self-made defects (`views/defects.py`) by all maps and by the surprisal of the location: the objective's
    third term with pseudo-anomalies.

    Each part's score becomes a surprisal in nats, −log of the share of normal images that reach it, by held-out
    scores; the score of an image is that of a weighted mean of these p-values (`scoring/combination.py`). The weights
    follow from how alike normal images are and how many self-made defects each part finds: nothing is chosen by a
    label. At most `references` images make the reference; a budget has nothing to limit.
    """

    explains = True
    scaled_heat = True
    has_codes = True
    holds_out = True
    rectangles = True
    largest_auto = 576
    pixels_auto = 2**27  # of 404 images at the largest side
    kept_in = torch.float16  # maps are most of the memory of a fit; it moves scores less than another seed of heads
    enlarge_auto = 1.5  # the heads see smaller defects
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        self.encoder = Frozen(settings.encoder, settings.side, shape[1:])
        self.has_heads = settings.defects == "yes" or (settings.defects == "auto" and min(shape[1:]) > SMALL)
        finest = 0 if self.has_heads else 1  # the map at 1/4 is for the heads alone
        self.layout = Layout(self.encoder.shapes[-1][0], tuple(self.encoder.shapes[finest:-1]))

    @property
    def most_references(self) -> int:
        return self.settings.references

    def load_pretrained(self) -> None:
        self.encoder.restore(self.settings.weights)

    def encode(self, images: Tensor) -> Tensor:
        *maps, last = self.encoder(images)
        return self.layout.rows(unit_code(last), *maps[-len(self.layout.map_shapes) :])

    def encode_defective(self, images: Tensor) -> Tensor:
        """`encode` of the images with self-made defects, and behind it what is known of these."""
        changed, known = with_defects(images, self.layout.finest)
        return torch.cat([self.encode(changed), known], 1)

    def code(self, encoded: Tensor) -> Tensor:
        return self.layout.code(encoded)

    def maps(self, encoded: Tensor, channels: Tensor) -> Tensor:
        """[n, c, h, w]: these channels of the maps at 1/8 and 1/16, side by side.

        Averaged over 3 × 3 locations where defects are looked for: what is a little out of place differs less.
        """
        coarse = self.layout.maps(encoded)[-2:]
        if self.has_heads:
            coarse = [with_neighbours(one) for one in coarse]
        return columns(coarse, grid_of(coarse[0].shape[2:]))[:, channels]

    def finish(self, batches: Batches) -> Reference:
        return self.finish_held_out(batches)[0]

    def finish_held_out(self, batches: Batches) -> tuple[Reference, Tensor]:
        """Each part is fitted to all images; its held-out scores are under what did not see the image. They give it a
        scale and a weight, and combined they are the held-out scores of the images."""
        n = len(batches)
        local_images = spread(n, self.settings.local_references)
        changed_images = local_images[spread(len(local_images), MOST_DEFECTIVE)] if self.has_heads else local_images[:0]
        times = min(MOST_TIMES, max(1, MOST_DEFECTIVE // len(local_images)))
        defects = batches.subset(changed_images).through(self.encode_defective).repeated(times)
        channels = random_channels(sum(shape[0] for shape in self.encoder.shapes[1:-1]), self.settings.channels)
        origin = np.tile(changed_images, times)
        codes, code, local = self.fit_gaussians(batches, defects, local_images, origin, channels)
        surprisal = local.normal[np.searchsorted(local_images, changed_images)]
        pairs = Pairs(batches.subset(changed_images), surprisal, defects, local.defects, times)
        heads = fit_defects(pairs, self.layout) if self.has_heads else None
        found = torch.stack([code.found, local.found, heads.found]) if heads else None
        weights = weights_of(codes, found)
        reference = {"channels": channels, "weights": weights, **under("code", code.reference)}
        reference |= under("local", {**local.reference, "hot": hottest_location(local.normal).quantile(USUAL)})
        scores = [(np.arange(n), code.normal), (local_images, hottest_location(local.normal))]
        if heads and found is not None:
            warmth = WARMTH * weights[2] / weights[1]
            hot = peak(log_heat(heads.normal, surprisal, warmth)).quantile(USUAL)
            reference |= under("heads", {**heads.reference, "warmth": warmth, "hot": hot}) | {"found": found}
            scores.append((changed_images, hottest(heads.normal)))
        parts = self.completed(scores, batches, reference)
        reference |= under("survival", fit_survival(parts))
        fold = random_folds(n).to(parts.device)
        nats = held_out(parts, fold, fit_survival, survival)
        return reference, combined(nats, weights, reference["survival.known"])

    def fit_gaussians(
        self, batches: Batches, defects: Batches, local_images: Indices, origin: Indices, channels: Tensor
    ) -> tuple[Tensor, Fitted, Fitted]:
        """The codes [n, d], what is fitted to them, and what is fitted to the maps of `local_images`.

        `origin` has the index of the image that each of the defective ones was made from.
        """
        codes = torch.cat([self.code(encoded) for encoded in batches])
        maps = torch.cat([self.maps(encoded, channels) for encoded in batches.subset(local_images)])
        defective = ((self.code(encoded), self.maps(encoded, channels)) for encoded in defects)
        changed_codes, changed_maps = map(torch.cat, zip((codes[:0], maps[:0]), *defective, strict=True))
        code = fit_code(codes, changed_codes, origin)
        return codes, code, fit_locations(maps, changed_maps, np.searchsorted(local_images, origin))

    def completed(self, scores: Sequence[tuple[Indices, Tensor]], batches: Batches, reference: Reference) -> Tensor:
        """[n, parts]: held-out scores of each part; of images that it was not fitted to, those under the reference."""
        result = torch.full((len(batches), len(scores)), torch.nan).to(scores[0][1])
        for place, (images, held) in enumerate(scores):
            result[images, place] = held
        rest = np.flatnonzero(result.isnan().any(1).cpu().numpy())
        if len(rest):
            new = ((encoded, self.locations(encoded, reference)) for encoded in batches.subset(rest))
            own = torch.cat([self.part_scores(*one, reference) for one in new])
            result[rest] = torch.where(result[rest].isnan(), own, result[rest])
        return result

    def summary(self, reference: Reference) -> str | None:
        counts = [
            f"{name} {100 * float(weight):.0f} %" for name, weight in zip(PARTS, reference["weights"], strict=False)
        ]
        text = f"what counts: {', '.join(counts)}"
        if "heads.hot" not in reference:
            return text
        shares = [f"{100 * float(share):.0f} %" for share in reference["found"]]
        return f"{text}; of self-made defects these find {', '.join(shares)} at {100 * FALSE_ALARMS:.0f} % false alarms"

    def part_scores(self, encoded: Tensor, locations: Locations, reference: Reference) -> Tensor:
        """[n, parts]."""
        scores = [gaussian(self.code(encoded), part(reference, "code")), hottest_location(locations.surprisal)]
        return torch.stack(scores if locations.odds is None else [*scores, hottest(locations.odds)], 1)

    def locations(self, encoded: Tensor, reference: Reference) -> Locations:
        surprisal = local_surprisal(self.maps(encoded, reference["channels"]), part(reference, "local"))
        heads = part(reference, "heads")
        return Locations(surprisal, defect_map(encoded, surprisal, heads, self.layout) if heads else None)

    def score_of(self, encoded: Tensor, locations: Locations, reference: Reference) -> Tensor:
        nats = survival(self.part_scores(encoded, locations, reference), part(reference, "survival"))
        return combined(nats, reference["weights"], reference["survival.known"])

    def score(self, encoded: Tensor, reference: Reference) -> Tensor:
        return self.score_of(encoded, self.locations(encoded, reference), reference)

    def explain(self, encoded: Tensor, reference: Reference) -> Tensor:
        return heat_of(self.locations(encoded, reference), reference)

    def judge(self, encoded: Tensor, reference: Reference) -> tuple[Tensor, Tensor]:
        locations = self.locations(encoded, reference)
        return self.score_of(encoded, locations, reference), heat_of(locations, reference)


def fit_code(codes: Tensor, changed: Tensor, origin: Indices) -> Fitted:
    """To codes [n, d]; `changed` [m, d] are those of images with self-made defects, and `origin` [m] says of which."""
    fitted = held_out_pair(codes, changed, torch.from_numpy(origin), fit_gaussian, gaussian, left_out_gaussian)
    return Fitted(*fitted, share_found(*fitted[1:]))


def fit_locations(maps: Tensor, changed: Tensor, origin: Indices) -> Fitted:
    """As `fit_code`, to maps [n, c, h, w]; its `normal` and `defects` are surprisals of locations, [n, h, w]."""
    fitted = held_out_pair(maps, changed, torch.from_numpy(origin), fit_local, local_surprisal, left_out_surprisal)
    return Fitted(*fitted, share_found(*map(hottest_location, fitted[1:])))


def heat_of(locations: Locations, reference: Reference) -> Tensor:
    """How far every location is from normal, [n, h, w]; 99 of 100 normal images are below 1 everywhere."""
    surprisal, odds = locations
    if odds is None:
        return smooth(surprisal) / reference["local.hot"]
    return (log_heat(odds, surprisal, reference["heads.warmth"]) - reference["heads.hot"]).exp()


def spread(n: int, most: int) -> Indices:
    """At most so many of n positions, at equal distances."""
    return np.arange(n) if n <= most else np.arange(most) * n // most


def grid_of(size: torch.Size) -> tuple[int, int]:
    """The grid of the local Gaussians: that of the map, halved until there are few enough locations."""
    height, width = size
    while height * width > MOST_LOCATIONS:
        height, width = math.ceil(height / 2), math.ceil(width / 2)
    return height, width
