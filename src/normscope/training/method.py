"""What a method is to the loop: the mathematics of one step, what is fitted at the end, and the score of an image."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field
from typing import ClassVar, NamedTuple, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

Record = Mapping[str, Tensor]
"""Named scalars of one step, for people to look at. `information` is the gain over a critic that knows nothing,
`spread` the standard deviation of the codes."""

Batches = Iterable[Tensor]
"""Images, float [n, c, h, w] in [-1, 1], a batch at a time; can be gone through more than once."""


def constant(progress: float) -> float:
    return 1.0


class Phase(NamedTuple):
    """A stretch of training with its own optimisers.

    `rate` turns the share done, in [0, 1), into a factor of the learning rates. Few images make short epochs, so a
    phase may ask for `least_steps` however many epochs these are.
    """

    name: str
    epochs: int
    rate: Callable[[float], float] = constant
    least_steps: int = 0


class MethodSettings(Protocol):
    """A method's settings: a frozen dataclass whose defaults are the paper's values."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    @property
    def batch_size(self) -> int: ...


class Method(nn.Module):
    """One anomaly detector for square images of `shape` (channels, height, width), float [n, c, h, w] in [-1, 1].

    `memory` holds what `finish` fitted in closed form; it is saved beside the weights, and unlike them may take any
    shape. `anomalies` are labelled ones, float [m, c, h, w] like images, given only while a method trains that
    `takes_anomalies`. Everything random is drawn from torch's global generator, which the caller seeds.
    """

    takes_anomalies: ClassVar[bool] = False
    scores_quickly: ClassVar[bool] = True  # so that looking at all training images once more takes little time
    largest_auto: ClassVar[int] = 64  # pixels a side, where the size of the images is left to the method
    collapse_shows_in: Sequence[str] = ("information", "spread")  # which of what it records must not fall to nothing
    settings: MethodSettings

    def __init__(self, settings: MethodSettings, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.settings, self.shape = settings, shape
        self.memory: dict[str, Tensor] = {}
        self.anomalies: Tensor | None = None

    def begin(self) -> None:
        """Before a fit, and not when a model file is loaded: get weights that come from elsewhere."""

    def end(self) -> None:
        """After a fit and all that goes with it: drop what nothing else needs."""

    def phases(self) -> Sequence[Phase]:
        """In order; none if there is nothing to train."""
        return ()

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        return {}

    def step(self, images: Tensor, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        """One minibatch, one update. `progress` is the share of the phase that is done, in [0, 1)."""
        raise NotImplementedError

    def finish(self, batches: Batches) -> None:
        """Fit what has a closed form, in eval mode, after the last step."""

    def score(self, images: Tensor) -> Tensor:
        """[n], higher is more anomalous; each image alone, in eval mode."""
        raise NotImplementedError

    def code(self, images: Tensor) -> Tensor | None:
        """[n, d], what the method knows an image by; None if it has no such thing."""
        return None

    def explain(self, images: Tensor) -> Tensor | None:
        """[n, h, w], where the image is surprising; None if the method cannot say."""
        return None
