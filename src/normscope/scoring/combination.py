"""Several scores of one image as one: their p-values averaged, each counting by what normal images say of it."""

import torch
from torch import Tensor

POWER = 0.5  # 0 would add the surprisals, 1 takes about the highest of them
FALSE_ALARMS = 0.05  # at which self-made defects are counted as found
STEEPNESS = 8  # with which the whole image gives way to its locations, the more alike images are
SMALL_STEEPNESS, SMALL_WHOLE = 4, 9  # the same, and a factor for the whole, where images are too small for defects
LEAST = 0.02  # weight of a part: so that what it alone is sure of is heard


def combined(nats: Tensor, weights: Tensor, known: Tensor) -> Tensor:
    """Surprisals [n, k] and weights [k] of sum 1 → [n], the surprisal of a weighted mean of the p-values.

    Of their powers −½, which is between the geometric and the harmonic mean (Vovk & Wang 2020, Combining p-values via
    averaging): one clear answer suffices, and the others cost it little. Where nats are extrapolated, beyond `known`,
    they count by their logarithm: a part in which an odd image is far out, or every image in another light, does not
    outdo what the others know. The mean is brought back to nats.
    """
    mean = (POWER * held_back(nats, known) + weights.log()).logsumexp(1) / POWER
    return given_back(mean, known)


def held_back(nats: Tensor, known: Tensor) -> Tensor:
    """What is beyond `known`, as its logarithm."""
    return nats.minimum(known) + (nats - known).clamp(min=0).log1p()


def given_back(nats: Tensor, known: Tensor) -> Tensor:
    """The inverse of `held_back`."""
    return nats.minimum(known) + (nats - known).clamp(min=0).expm1()


def share_found(normal: Tensor, changed: Tensor) -> Tensor:
    """The share of images with self-made defects that are above all but a few of the normal ones; NaN without any."""
    return (changed > normal.quantile(1 - FALSE_ALARMS)).float().mean()


def weights_of(codes: Tensor, found: Tensor | None) -> Tensor:
    """How much the parts count, of sum 1, the whole image first; `found` [k] is what share of self-made defects each
    of them finds. Without any there are two, the other being the hottest location, and images are small: what is wrong
    with these is mostly that they show another thing.

    Pictures of one thing from one place are alike, and what is wrong with such a thing is at some place in it; where
    normal pictures differ from each other, as those of dogs do, an anomaly is another kind of thing. The mean cosine of
    two normal codes says which it is, without a label, and so what the whole image counts for. The rest is shared out
    by the root of the odds of finding a self-made defect: real ones are of other kinds, so the odds say too much.
    """
    steepness, factor = (SMALL_STEEPNESS, SMALL_WHOLE) if found is None else (STEEPNESS, 1)
    alike = mean_cosine(codes)
    differ = factor * (1 - alike) ** steepness
    whole = differ / (differ + alike**steepness)
    if found is None:
        weights = torch.stack([whole, 1 - whole])
    else:
        share = found.clamp(0.01, 0.99)
        odds = (share / (1 - share)).sqrt()
        weights = (1 - whole) * odds / odds.sum()
        weights[0] += whole
    weights = weights.clamp(min=LEAST)
    return weights / weights.sum()


def mean_cosine(codes: Tensor) -> Tensor:
    """Of two different ones of codes [n, d] of length 1; at least 0, and 1 for a single code."""
    n = len(codes)
    if n == 1:
        return codes.new_ones(())
    return ((codes.sum(0).square().sum() - n) / (n * (n - 1))).clamp(0, 1)
