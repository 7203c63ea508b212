"""A uniform random sample of rows that arrive in batches."""

from collections.abc import Iterable

import torch
from torch import Tensor


class Reservoir:
    """Reservoir sample: at most `most` of all rows that are added, each as likely as any other; `rows` in order."""

    def __init__(self, most: int) -> None:
        self.most, self.rows, self.lots = most, torch.empty(0), torch.empty(0)

    def add(self, rows: Tensor) -> None:
        self.rows = torch.cat([self.rows, rows]) if len(self.lots) else rows
        self.lots = torch.cat([self.lots, torch.rand(len(rows))])
        if len(self.lots) > self.most:
            chosen = self.lots.topk(self.most).indices.sort().values
            self.rows, self.lots = self.rows[chosen.to(self.rows.device)], self.lots[chosen]


def sampled(batches: Iterable[Tensor], most: int) -> Tensor:
    """A reservoir sample of the rows of all batches; little more than that is ever in memory."""
    reservoir = Reservoir(most)
    for rows in batches:
        reservoir.add(rows)
    return reservoir.rows
