"""Images of a store as a method encodes them, a batch at a time; what a frozen network makes of them is kept."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from normscope.training.batches import Pixels, to_float
from normscope.training.method import Method
from normscope.training.observer import Observer
from normscope.training.randomness import seeded

MOST_BYTES = 2**31
MOST_PIXELS = 256 * 256**2  # of the images in a batch


@dataclass
class Cache:
    """Encodings by the function that made them and the index of their image, until `left` bytes are used up."""

    left: int = MOST_BYTES
    kept: dict[tuple[str, int], Tensor] = field(default_factory=dict)

    def add(self, key: tuple[str, int], encoding: Tensor) -> None:
        self.left -= encoding.nbytes
        if self.left >= 0:
            self.kept[key] = encoding


@dataclass(frozen=True, eq=False)
class Encoded:
    """Batches of `method.encode(images)`, or of what another function makes of them, in the order of `indices`; can be
    iterated more than once.

    Where the method encodes, no image goes through it twice while the cache has room: subsets share
    it. `doing` is what the observer is told. All encodings have the same `precision`, kept or not.
    """

    method: Method
    pixels: Pixels
    device: torch.device
    batch_size: int
    doing: str = "scoring"
    observer: Observer = field(default_factory=Observer)
    indices: npt.NDArray[np.intp] | None = None  # modulo the number of images; None: all
    cache: Cache = field(default_factory=Cache)
    encode: Callable[[Tensor], Tensor] | None = None  # None: that of the method
    precision: torch.dtype = torch.float32
    salt: int = 0  # what a random function draws follows from it and the index of the image

    def __len__(self) -> int:
        return len(self.pixels) if self.indices is None else len(self.indices)

    def __iter__(self) -> Iterator[Tensor]:
        n = len(self)
        every = np.arange(n) if self.indices is None else self.indices
        together = min(self.batch_size, max(1, MOST_PIXELS // math.prod(self.method.shape[1:])))
        self.observer.images(self.doing, 0, n)
        for start in range(0, n, together):
            yield self.encoded(every[start : start + together])
            self.observer.images(self.doing, min(start + together, n), n)

    def encode_all(self) -> None:
        """Now rather than when they are asked for, where encodings are kept."""
        if self.method.encodes:
            for _ in replace(self, doing="encoding"):
                pass

    def subset(self, indices: npt.NDArray[np.intp], doing: str | None = None) -> "Encoded":
        """These of the images, in this order."""
        chosen = indices if self.indices is None else self.indices[indices]
        return replace(self, indices=chosen, doing=doing or self.doing)

    def through(self, encode: Callable[[Tensor], Tensor]) -> "Encoded":
        """The same images, encoded by another function, which has a name of its own.

        If it is random, what it draws for an image follows from torch's seed at this moment: the same whenever it is
        asked, also where there was no room to keep what it made.
        """
        return replace(self, encode=encode, salt=torch.initial_seed())

    def repeated(self, times: int) -> "Encoded":
        """The images so many times over; a function other than the method's encodes each anew."""
        every = np.arange(len(self)) if self.indices is None else self.indices
        again = [every + number * len(self.pixels) for number in range(times)]
        return replace(self, indices=np.concatenate(again))

    def encoded(self, chosen: npt.NDArray[np.intp]) -> Tensor:
        if self.encode is None:
            chosen = chosen % len(self.pixels)
            if not self.method.encodes:
                return to_float(self.pixels[chosen], self.device)
        name = (self.encode or self.method.encode).__name__
        keys, kept = [(name, int(index)) for index in chosen], self.cache.kept
        new = [key for key in keys if key not in kept]
        fresh = dict(zip(new, self.made([index for _, index in new]), strict=True))
        result = [fresh[key] if key in fresh else kept[key] for key in keys]
        for key, encoding in fresh.items():
            self.cache.add(key, encoding)
        return torch.stack(result).to(self.device)

    def made(self, indices: Sequence[int]) -> Sequence[Tensor]:
        """The encodings of these images, on the CPU."""
        if self.encode is None:
            return [*self.method.encode(self.images(indices)).to("cpu", self.precision)] if indices else []
        return [self.drawn(self.encode, index) for index in indices]

    def drawn(self, encode: Callable[[Tensor], Tensor], index: int) -> Tensor:
        with seeded(self.salt, index):
            return encode(self.images([index]))[0].to("cpu", self.precision)

    def images(self, indices: Sequence[int]) -> Tensor:
        return to_float(self.pixels[np.array(indices, np.intp) % len(self.pixels)], self.device)
