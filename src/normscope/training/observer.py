"""Who follows a fit: progress bars, curves, trackers."""

import math
from collections.abc import Mapping, Sequence
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

    def parts(self, doing: str, done: int, of: int) -> None:
        """Called as parts of a long work are done, each of which may go through images: folds, cells, stages."""

    def step(self, progress: Progress) -> None:
        """Called after each step."""

    def epoch(self, progress: Progress, method: "Method", reference: "Reference") -> None:
        """Called every `every` epochs with the method and the reference as if training ended there."""

    def finished(self, card: Mapping[str, object]) -> None:
        """Called when the model is there, with its card."""


class Several(Observer):
    """Tells each of its observers all that it is told."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = observers
        self.every = math.gcd(*(one.every for one in observers))

    def note(self, text: str) -> None:
        for one in self.observers:
            one.note(text)

    def images(self, doing: str, done: int, of: int) -> None:
        for one in self.observers:
            one.images(doing, done, of)

    def parts(self, doing: str, done: int, of: int) -> None:
        for one in self.observers:
            one.parts(doing, done, of)

    def step(self, progress: Progress) -> None:
        for one in self.observers:
            one.step(progress)

    def epoch(self, progress: Progress, method: "Method", reference: "Reference") -> None:
        for one in self.observers:
            if one.every and progress.epoch % one.every == 0:
                one.epoch(progress, method, reference)

    def finished(self, card: Mapping[str, object]) -> None:
        for one in self.observers:
            one.finished(card)
