"""uint8 pixels in store → float images on the device, a batch at a time."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from normscope.errors import SettingError
from normscope.training.randomness import permutation

Watch = Callable[[int, int], None]
"""Is told how many images are done, and of how many."""


def unwatched(done: int, of: int) -> None:
    pass


class Pixels(Protocol):
    """Images as `images.store.Store` holds them: uint8 [n, 3, h, w], by slice or by index array."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: slice | np.ndarray) -> np.ndarray: ...


def to_float(pixels: np.ndarray, device: torch.device) -> Tensor:
    """uint8 [n, c, h, w] → float in [-1, 1]; the only place that rescales."""
    x = torch.from_numpy(np.ascontiguousarray(pixels)).to(device).to(torch.float32)
    return (x / 127.5 - 1).contiguous(memory_format=torch.channels_last)


class InOrder:
    """Every image once, in the order of the store; `watch` is told how many are done of how many."""

    def __init__(self, pixels: Pixels, batch_size: int, device: torch.device, watch: Watch = unwatched) -> None:
        self.pixels, self.batch_size, self.device, self.watch = pixels, batch_size, device, watch

    def __iter__(self) -> Iterator[Tensor]:
        n = len(self.pixels)
        self.watch(0, n)
        for start in range(0, n, self.batch_size):
            yield to_float(self.pixels[start : start + self.batch_size], self.device)
            self.watch(min(start + self.batch_size, n), n)


def steps_per_epoch(n: int, batch_size: int) -> int:
    """A last batch that is not full is left out; a folder smaller than a batch is one batch."""
    if batch_size < 1:
        raise SettingError(f"batch_size is {batch_size}; give 1 or more")
    return max(1, n // batch_size)


def shuffled(n: int, batch_size: int, step: int, *key: int) -> Iterator[np.ndarray]:
    """Indices of the batches from `step` on, without end; each epoch's order follows from the key and its number."""
    per_epoch = steps_per_epoch(n, batch_size)
    while True:
        order = permutation(n, *key, step // per_epoch)
        for place in range(step % per_epoch, per_epoch):
            yield np.sort(order[place * batch_size : (place + 1) * batch_size])
            step += 1


class Sample:
    """At most `most` rows of all that are added, each as likely as any other, in order; `rows` has them."""

    def __init__(self, most: int) -> None:
        self.most, self.rows, self.lots = most, torch.empty(0), torch.empty(0)

    def add(self, rows: Tensor) -> None:
        self.rows = torch.cat([self.rows, rows]) if len(self.lots) else rows
        self.lots = torch.cat([self.lots, torch.rand(len(rows))])
        if len(self.lots) > self.most:
            chosen = self.lots.topk(self.most).indices.sort().values
            self.rows, self.lots = self.rows[chosen.to(self.rows.device)], self.lots[chosen]


def drawn(batches: Iterable[Tensor], most: int) -> Tensor:
    """A sample of the rows of all batches; little more than that is ever in memory."""
    sample = Sample(most)
    for rows in batches:
        sample.add(rows)
    return sample.rows
