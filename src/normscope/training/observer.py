"""Who follows a fit: progress bars, curves, trackers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the command line shows progress without torch
    from normscope.training.method import Method, Reference


class Progress(NamedTuple):
    """How far a phase has come. `steps` is None while the budget is being measured."""

    phase: str
    step: int
    steps: int | None
    epoch: int  # how many are complete
    seconds: float
    record: Mapping[str, float]


class Observer:
    """Follows a fit without influence on it; override what you want to see. Its time is not the budget's."""

    every = 0
    """Epochs between two calls of `epoch`; 0 for none: each costs a pass over the training images."""

    def note(self, text: str) -> None:
        """Called before training with what the user should know of the settings."""

    def images(self, doing: str, done: int, of: int) -> None:
        """Called as images are read, summed up, scored: what is being done, to how many already, and of how many."""

    def step(self, progress: Progress) -> None:
        """Called after each step."""

    def epoch(self, progress: Progress, method: "Method", reference: "Reference") -> None:
        """Called every `every` epochs with the method and the reference as if training ended there."""
