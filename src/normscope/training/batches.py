"""uint8 pixels in a store → float images on the device, and which of them make up a minibatch."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from normscope.errors import SettingError
from normscope.training.randomness import permutation


class Pixels(Protocol):
    """Images as `images.store.Store` holds them: uint8 [n, 3, h, w], by slice or by index array."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: slice | np.ndarray) -> np.ndarray: ...


def to_float(pixels: np.ndarray, device: torch.device) -> Tensor:
    """uint8 [n, c, h, w] → float in [-1, 1]; the only place that rescales."""
    x = torch.from_numpy(np.ascontiguousarray(pixels)).to(device).contiguous(memory_format=torch.channels_last)
    return x.to(torch.float32).div_(127.5).sub_(1)  # in place, for a second copy would cost more than the arithmetic


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


def drawn(anomalies: Tensor | None, normal: Tensor, share: float) -> Tensor:
    """Labelled anomalies for a minibatch, without replacement: `share` for each normal image, at least one."""
    if anomalies is None:
        return normal[:0]
    wanted = max(1, round(share * len(normal)))
    return anomalies[torch.randperm(len(anomalies))[:wanted].to(anomalies.device)]
