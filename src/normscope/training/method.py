"""What a method is to the loop: the mathematics of one step, what is fitted at the end, and the score of an image."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

Record = Mapping[str, Tensor]
"""Named scalars of one step, for people to look at. `information` is the gain over a critic that knows nothing,
`spread` the standard deviation of the codes."""

Reference = Mapping[str, Tensor]
"""What a method fits in closed form to normal images once training is over; of any shapes, unlike weights."""


class Batches(Protocol):
    """What `encode` makes of images, a batch at a time; can be iterated more than once."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Tensor]: ...

    def subset(self, indices: npt.NDArray[np.intp]) -> "Batches":
        """Of these images, in this order."""

    def through(self, encode: Callable[[Tensor], Tensor]) -> "Batches":
        """The same images, encoded by another function, which may be random."""

    def repeated(self, times: int) -> "Batches":
        """The images so many times over: a random function encodes each anew."""


T = TypeVar("T")


def part(entries: Mapping[str, T], prefix: str) -> dict[str, T]:
    """The entries whose names begin with the prefix and a dot, without these."""
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in entries.items() if name.startswith(start)}


def under(prefix: str, entries: Mapping[str, T]) -> dict[str, T]:
    """The entries with names that begin with the prefix and a dot: `part` takes them out again."""
    return {f"{prefix}.{name}": value for name, value in entries.items()}


class Batch(NamedTuple):
    """Images of one step, float [n, c, h, w] in [-1, 1]; no anomalous ones ([0, c, h, w]) unless some are labelled."""

    normal: Tensor
    anomalous: Tensor


def constant(progress: float) -> float:
    return 1.0


class Phase(NamedTuple):
    """A stretch of training with its own optimisers.

    `rate` turns the share done, in [0, 1), into a factor of the learning rates. Few images make short epochs, so a
    phase may ask for `least_steps` however many epochs these are. A phase with `enough` is planned for its least steps
    alone; halfway through them it is given the running averages of what was recorded, and if these are not enough the
    phase goes on for all its epochs: a stop that looks at no label and at no held-out image.
    """

    name: str
    epochs: int
    batch_size: int
    rate: Callable[[float], float] = constant
    least_steps: int = 0
    enough: Callable[[Mapping[str, float]], bool] | None = None


class MethodSettings(Protocol):
    """A method's settings: a frozen dataclass whose defaults are the paper's values."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]


class Method(nn.Module):
    """One anomaly detector for images of `shape` (channels, height, width), float [n, c, h, w] in [-1, 1].

    Training changes the weights; nothing else changes a method. What `finish` fits is returned and handed back to
    `score` and `explain`. Everything random is drawn from torch's global generator, which the caller seeds.
    """

    explains: bool = False  # whether `explain` can be called
    explains_by_gradient: ClassVar[bool] = False  # so that an exported graph, which has no gradients, cannot
    scaled_heat: bool = False  # whether 99 of 100 normal images are below 1 everywhere in what it gives
    has_codes: ClassVar[bool] = False  # whether `code` can be called
    takes_anomalies: ClassVar[bool] = False  # whether a step makes use of labelled anomalies
    scores_quickly: ClassVar[bool] = True  # so that scoring all training images once more takes little time
    holds_out: ClassVar[bool] = False  # whether `finish_held_out` can be called
    rectangles: ClassVar[bool] = False  # whether images need not be square
    largest_auto: ClassVar[int] = 64  # pixels on the shorter side, where the size of the images is left to the method
    pixels_auto: ClassVar[float] = math.inf  # of all images together: many are then smaller, down to half that side
    enlarge_auto: ClassVar[float] = 1.0  # factor by which images of more than 64 pixels are enlarged, up to that side
    kept_in: ClassVar[torch.dtype] = torch.float32  # the precision in which a fit keeps what `encode` makes
    collapse_shows_in: Sequence[str] = ("information", "spread")  # which of what it records must not fall to nothing
    settings: MethodSettings

    def __init__(self, settings: MethodSettings, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.settings, self.shape = settings, shape

    @property
    def anomaly_share(self) -> float:
        """Labelled anomalies in a batch, for each normal image; at least one if there are any."""
        return 0.25

    @property
    def encodes(self) -> bool:
        """Whether `encode` makes something of the images, which is then kept during a fit."""
        return type(self).encode is not Method.encode

    @property
    def most_references(self) -> int | None:
        """How many training images, drawn at random, `finish` is given; None: all."""
        return None

    def load_pretrained(self) -> None:
        """Get weights that come from elsewhere; called before a fit, and not when a model file is loaded."""

    def advice(self) -> str | None:
        """What is known against these settings before any training; None for nothing."""
        return None

    def before_training(self) -> "Method | None":
        """What judges images already, as a method of its own that trains nothing; None if nothing does."""
        return None

    def export_obstacle(self) -> str | None:
        """Why a score is more than one forward pass, which is all that can be exported; None if it is one."""
        return None

    def phases(self) -> Sequence[Phase]:
        """In order; none if there is nothing to train."""
        return ()

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        return {}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        """One minibatch, one update. `progress` is the share of the phase that is done, in [0, 1)."""
        raise NotImplementedError

    def encode(self, images: Tensor) -> Tensor:
        """What takes long and needs no reference: `finish` and all that judge an image get it in place of images.

        The images themselves, unless a frozen network sees them first.
        """
        return images

    def finish(self, batches: Batches) -> Reference:
        """Fit what has a closed form, in eval mode, after the last step."""
        return {}

    def finish_held_out(self, batches: Batches) -> tuple[Reference, Tensor]:
        """`finish`, and the score [n] of each image by what was fitted to others: for a method that needs both itself,
        and would else be finished once more for every fold."""
        raise NotImplementedError

    def summary(self, reference: Reference) -> str | None:
        """What a user should know of the reference, in a sentence; None for nothing."""
        return None

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        """[n], higher is more anomalous; each image alone, in eval mode."""
        raise NotImplementedError

    def code(self, images: Tensor) -> Tensor:
        """[n, d]: the vector that the method represents an image by."""
        raise NotImplementedError

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """[n, h, w]: where each image is surprising, at a grid of the method's own."""
        raise NotImplementedError

    def judge(self, images: Tensor, reference: Reference) -> tuple[Tensor, Tensor]:
        """`score` and `explain`: for a method that works out something for both, once."""
        return self.score(images, reference), self.explain(images, reference)
