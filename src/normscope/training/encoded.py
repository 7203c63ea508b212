"""Images of a store as a method encodes them, a batch at a time; what a frozen network makes of them is kept."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from normscope.training.batches import Pixels, to_float
from normscope.training.method import Method
from normscope.training.observer import Observer

MOST_BYTES = 2**30


@dataclass
class Cache:
    """Encodings by the index of their image, until `left` bytes are used up."""

    left: int = MOST_BYTES
    kept: dict[int, Tensor] = field(default_factory=dict)

    def add(self, index: int, encoding: Tensor) -> None:
        self.left -= encoding.nbytes
        if self.left >= 0:
            self.kept[index] = encoding


@dataclass(frozen=True, eq=False)
class Encoded:
    """Batches of `method.encode(images)` in the order of `indices`; can be iterated more than once.

    Where the method has an `encode` of its own, no image goes through it twice while the cache has room: subsets share
    it. `doing` is what the observer is told.
    """

    method: Method
    pixels: Pixels
    device: torch.device
    batch_size: int
    doing: str = "scoring"
    observer: Observer = field(default_factory=Observer)
    indices: npt.NDArray[np.intp] | None = None  # None: all
    cache: Cache = field(default_factory=Cache)

    def __len__(self) -> int:
        return len(self.pixels) if self.indices is None else len(self.indices)

    def __iter__(self) -> Iterator[Tensor]:
        n = len(self)
        every = np.arange(n) if self.indices is None else self.indices
        self.observer.images(self.doing, 0, n)
        for start in range(0, n, self.batch_size):
            yield self.encoded(every[start : start + self.batch_size])
            self.observer.images(self.doing, min(start + self.batch_size, n), n)

    def subset(self, indices: npt.NDArray[np.intp], doing: str | None = None) -> "Encoded":
        """These of the images, in this order."""
        chosen = indices if self.indices is None else self.indices[indices]
        return replace(self, indices=chosen, doing=doing or self.doing)

    def encoded(self, chosen: npt.NDArray[np.intp]) -> Tensor:
        if type(self.method).encode is Method.encode:
            return to_float(self.pixels[chosen], self.device)
        new = np.array([index for index in chosen if int(index) not in self.cache.kept], dtype=np.intp)
        made = self.method.encode(to_float(self.pixels[new], self.device)).cpu() if len(new) else ()
        fresh = dict(zip(new.tolist(), made, strict=True))
        result = [fresh[index] if index in fresh else self.cache.kept[index] for index in chosen.tolist()]
        for index, encoding in fresh.items():
            self.cache.add(index, encoding)
        return torch.stack(result).to(self.device)
