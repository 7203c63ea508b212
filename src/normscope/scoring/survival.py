"""Surprisal of a score: −log of the share of normal images that score as high, smooth beyond the highest of them."""

import torch
from torch import Tensor

from normscope.training.method import Reference

TAIL = 0.15  # share of the normal scores above which they are taken to fall off exponentially
KNOTS = 20


def fit_survival(scores: Tensor) -> Reference:
    """Of normal scores [n, k], which are best those of images that what scored them was not fitted to.

    Each of the k is turned into nats by a line through `knots` [k, m], where −log p is known, and on with `slope` [k]
    above the last of them. `known` is −log of the least share that n scores can show: what is above is extrapolated.
    """
    share = torch.linspace(0, 1 - TAIL, KNOTS, dtype=torch.float64)
    knots = scores.double().cpu().quantile(share, dim=0).T
    excess = (scores.double().cpu().T - knots[:, -1:]).clamp(min=0)
    mean_excess = excess.sum(1) / (excess > 0).sum(1).clamp(min=1)
    scale = 1e-3 * (knots[:, -1] - knots[:, 0]) + 1e-9
    known = torch.tensor(float(len(scores))).log()
    return {"knots": knots.float(), "slope": (1 / mean_excess.clamp(min=scale)).float(), "known": known}


def survival(scores: Tensor, reference: Reference) -> Tensor:
    """[n, k] → [n, k]: nats, from 0 for what any normal image exceeds; straight on above the highest."""
    knots, slope = reference["knots"].to(scores), reference["slope"].to(scores)
    nats = -torch.log1p(-torch.linspace(0, 1 - TAIL, KNOTS, dtype=scores.dtype, device=scores.device))
    x = scores.T.contiguous()
    right = torch.searchsorted(knots, x).clamp(1, KNOTS - 1)
    low, high = knots.gather(1, right - 1), knots.gather(1, right)
    share = ((x - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)
    inside = nats[right - 1] + share * (nats[right] - nats[right - 1])
    return (inside + (x - knots[:, -1:]).clamp(min=0) * slope[:, None]).T
