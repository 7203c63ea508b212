"""Scores of all pairs of a large batch, some rows at a time: memory grows with the batch and not with its square."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from normscope.objective import Information
from normscope.objective.critics import contrast
from normscope.objective.information import decoupled, infonce, jsd, nwj

MEANS_OF_ROWS = (infonce, decoupled, jsd, nwj)
"""Estimators that are the mean of what they are for each row; the others need all negatives at once."""
MOST_PAIRS = 2**20  # in a block: smaller batches are evaluated at once

Critic = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The pairs of `contrast(critic(a, b))`, codes [2n, d] of two views each, which never are in memory all at once."""

    a: Tensor
    b: Tensor
    critic: Critic

    @property
    def shape(self) -> tuple[int, int]:
        """Of the negatives."""
        return len(self.a), len(self.b) - 2

    def evaluated(self, information: Information) -> tuple[Tensor, Tensor]:
        """The estimate and the mean score. Scores are computed anew in the backward pass, in place of being kept."""
        few = max(1, MOST_PAIRS // len(self.b))
        values = []
        for first in range(0, len(self.a), few):
            rows = self.a[first : first + few]
            value: Tensor = checkpoint(self.block, information, rows, first, use_reentrant=False)
            values.append(value * (len(rows) / len(self.a)))
        both = torch.stack(values).sum(0)
        return both[0], both[1].detach()

    def block(self, information: Information, rows: Tensor, first: int) -> Tensor:
        positive, negative = contrast(self.critic(rows, self.b), first)
        total = positive.detach().sum() + negative.detach().sum()
        return torch.stack([information(positive, negative), total / (positive.numel() + negative.numel())])


def contrasted(a: Tensor, b: Tensor, critic: Critic, information: Information) -> tuple[Tensor, Tensor] | Blocks:
    """Positive and negative scores of codes [2n, d], or where there are many, for an estimator that can do with some of
    them at a time, `Blocks` of them."""
    if len(a) * len(b) > MOST_PAIRS and information in MEANS_OF_ROWS:
        return Blocks(a, b, critic)
    return contrast(critic(a, b))
