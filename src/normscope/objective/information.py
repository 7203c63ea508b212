"""Estimators of I(x;z) from critic scores: `positive` [n] of true pairs, `negative` [n, m] of shuffled ones.

All are in nats except `jsd`. "At the exact log density ratio" names what a perfect critic would yield.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["infonce", "jsd", "donsker_varadhan", "nwj", "smile", "decoupled"]


def infonce(positive: Tensor, negative: Tensor) -> Tensor:
    """InfoNCE, van den Oord et al. 2018; a lower bound that never exceeds log(m + 1)."""
    every = torch.cat([positive[:, None], negative], dim=1)
    return (positive - every.logsumexp(1)).mean() + math.log(every.shape[1])


def jsd(positive: Tensor, negative: Tensor) -> Tensor:
    """Jensen-Shannon objective, Hjelm et al. 2019 (Deep InfoMax); lies in [-2 log 2, 0] at its best critic."""
    # At the exact log density ratio this is 2·JSD − 2·log 2: it orders dependence but is not mutual information.
    return -F.softplus(-positive).mean() - F.softplus(negative).mean()


def donsker_varadhan(positive: Tensor, negative: Tensor, log_average: Tensor | None = None) -> Tensor:
    """Donsker-Varadhan bound, Belghazi et al. 2018 (MINE); `log_average` corrects the gradient, never the value."""
    partition = _log_mean_exp(negative)
    if log_average is None:
        return positive.mean() - partition
    # MINE, section 3.2: ∇E[e^f] / E[e^f] is biased in a minibatch; the denominator becomes the moving average.
    fixed = partition.detach()
    return positive.mean() - fixed - (fixed - log_average).exp() * (partition - fixed)


def nwj(positive: Tensor, negative: Tensor) -> Tensor:
    """Nguyen, Wainwright & Jordan 2010; an unbiased lower bound, tight at 1 + the exact log density ratio."""
    return positive.mean() - (negative - 1).exp().mean()


def smile(positive: Tensor, negative: Tensor, *, tau: float = 5.0) -> Tensor:
    """Song & Ermon 2020; Donsker-Varadhan with e^score clipped to [e^-tau, e^tau] in the partition."""
    # Not a bound. Negatives beyond tau get no gradient; its authors train the critic with `jsd` and read this value.
    return positive.mean() - _log_mean_exp(negative.clamp(-tau, tau))


def decoupled(positive: Tensor, negative: Tensor) -> Tensor:
    """Decoupled contrast, Yeh et al. 2022; InfoNCE without the positive in the denominator, so not capped."""
    # + log m averages the m terms of the denominator, so that a constant critic gives 0 as with the other estimators.
    # Not a bound: by Jensen's inequality it lies above I at the exact log density ratio, by little once m is large.
    return (positive - negative.logsumexp(1)).mean() + math.log(negative.shape[1])


def moving_log_average(previous: Tensor | None, negative: Tensor, decay: float = 0.99) -> Tensor:
    """Log of the moving average of mean(e^negative), detached: the `log_average` of `donsker_varadhan`.

    `previous` is the last value returned, None at the first batch; `decay` lies strictly between 0 and 1.
    """
    current = _log_mean_exp(negative.detach())
    if previous is None:
        return current
    return torch.logaddexp(previous.detach() + math.log(decay), current + math.log1p(-decay))


def _log_mean_exp(scores: Tensor) -> Tensor:
    return scores.flatten().logsumexp(0) - math.log(scores.numel())
