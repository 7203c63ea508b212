"""−(I − β·H): the paper's objective as a loss. The one thing in this room with state: a running β and log averages."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from normscope.objective import Information
from normscope.objective.blocks import Blocks
from normscope.objective.information import donsker_varadhan, moving_log_average

Beta = float | Literal["auto"]
Pair = tuple[Tensor, Tensor]


class TradeOff(nn.Module):
    """Information of one or more critics against entropy.

    `beta` may be `auto`: the paper's own rule (its section on the essence of the trade-off) that a proper β makes the
    two losses converge to a similar scale. Too much entropy raises β and too little lowers it, from 1 on, by at most
    one per cent a step. `ramp` is the share of training over which β rises from 0: it keeps codes from collapsing
    before they have learnt anything.
    """

    balance: Tensor
    log_averages: Tensor
    averaged: Tensor

    def __init__(self, information: Information, beta: Beta, ramp: float = 0.0, critics: int = 1) -> None:
        super().__init__()
        self.estimator, self.beta, self.ramp = information, beta, ramp
        self.register_buffer("balance", torch.tensor(1.0))
        self.register_buffer("log_averages", torch.zeros(critics))
        self.register_buffer("averaged", torch.zeros(critics, dtype=torch.bool))  # which averages have begun

    def forward(
        self, pairs: Sequence[Pair | Blocks], entropy: Tensor, progress: float
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Scores (positive [n], negative [n, m]) of each critic and the codes' entropy → loss and what to record."""
        found = [self.estimate(number, pair) for number, pair in enumerate(pairs)]
        information = torch.stack([value for value, _ in found]).sum()
        beta = self.current_beta(progress)
        if self.beta == "auto" and self.training:
            # What the information lacks to that of a perfect critic is the loss that the paper plots.
            self.rebalance((self.perfect(pairs, 20.0) - information).detach(), entropy.detach())
        loss = -(information - beta * entropy)
        gained = information - self.knowing_nothing(pairs, [mean for _, mean in found])
        return loss, {"loss": loss, "information": gained, "entropy": entropy, "beta": beta}

    def estimate(self, number: int, pair: Pair | Blocks) -> tuple[Tensor, Tensor]:
        """Of a critic: the information, and the mean of all scores."""
        if isinstance(pair, Blocks):
            return pair.evaluated(self.estimator)
        positive, negative = pair
        mean = torch.cat([positive.detach(), negative.detach().flatten()]).mean()
        if self.estimator is not donsker_varadhan:
            return self.estimator(positive, negative), mean
        before = self.log_averages[number]
        average = moving_log_average(before if self.averaged[number] else None, negative.detach())
        self.log_averages[number], self.averaged[number] = average, True
        return donsker_varadhan(positive, negative, average), mean

    def value_at(
        self, pairs: Sequence[Pair | Blocks], positive: Sequence[Tensor], negative: Sequence[Tensor]
    ) -> Tensor:
        """[critics]: the estimates if every positive and every negative had these scores; one row is as good as all."""
        negatives = [pair.shape[1] if isinstance(pair, Blocks) else pair[1].shape[1] for pair in pairs]
        every = zip(positive, negative, negatives, strict=True)
        return torch.stack([self.estimator(p.expand(1), n.expand(1, m)) for p, n, m in every])

    def perfect(self, pairs: Sequence[Pair | Blocks], score: float) -> Tensor:
        at = [torch.full_like(self.balance, score)] * len(pairs)
        return self.value_at(pairs, at, [-one for one in at]).sum()

    def knowing_nothing(self, pairs: Sequence[Pair | Blocks], means: Sequence[Tensor]) -> Tensor:
        """The estimate if every pair scored the same: nought, or the mean of these scores where that yields more."""
        nought = [torch.zeros_like(mean) for mean in means]
        same = [self.value_at(pairs, at, at) for at in (nought, means)]
        return torch.maximum(*same).sum()

    def current_beta(self, progress: float) -> Tensor:
        beta = self.balance.clone() if self.beta == "auto" else torch.full_like(self.balance, self.beta)
        return beta * ramp(progress, self.ramp)

    def rebalance(self, lacking: Tensor, entropy: Tensor) -> None:
        step = (entropy.clamp(min=1e-6) / lacking.clamp(min=1e-6)).log().clamp(-1, 1)
        self.balance.mul_((0.01 * step).exp()).clamp_(1e-3, 1e3)


def ramp(progress: float, share: float) -> float:
    """From 0 to 1 over the first `share` of training."""
    return min(1.0, progress / share) if share else 1.0
