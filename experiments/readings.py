"""The readings of the base model in which the paper's tables and figures are made."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from figures import Axes
from options import Options

from normscope.benchmark.cell import Cell
from normscope.benchmark.results import Result

Reading = tuple[str, float]  # preset and γ
LITERAL, COMPLETE, TWO_TERMS = ("paper", 0.0), ("laptop", 2.0), ("laptop", 0.0)
NAMES = {LITERAL: "the paper's, literally", COMPLETE: "laptop, three terms", TWO_TERMS: "laptop, two terms"}
SEEDS = 3


def cells(options: Options, reading: Reading, settings: Mapping[str, object]) -> list[Cell]:
    """Scored by the norm, with a point of the curve after every epoch.

    The literal reading has a minute and one seed. The others have two epochs, which are the preset's 300 steps or a few
    more, so that the last point of the curve is the end of training.
    """
    preset, gamma = reading
    if reading == LITERAL:
        return options.cells("base", {"preset": preset, "encoder": "tiny", **settings}, every=1)
    return steady(options, 2).cells("base", {"gamma": gamma, "score": "ori", **settings}, every=1)


def followed(options: Options, settings: Mapping[str, object]) -> list[Cell]:
    """The complete reading over five epochs, one seed."""
    return replace(steady(options, 5), seeds=1).cells("base", {"score": "ori", **settings}, every=1)


def untrained(options: Options) -> list[Cell]:
    """The control: the laptop's network before any step, scored by the norm."""
    return steady(options, 0).cells("base", {"score": "ori"})


def steady(options: Options, epochs: int) -> Options:
    """Epochs instead of a budget: what comes out does not depend on how busy the machine is."""
    return replace(options, budget=None, epochs=epochs, seeds=1 if options.quick else SEEDS)


def last_task(options: Options) -> Options:
    """Only the last task: the paper's cars."""
    return replace(options, tasks=options.tasks[-1:])


def is_of(result: Result, task: tuple[str, int], reading: Reading | None) -> bool:
    """Whether it was trained on this task in this reading; untrained, if that is None."""
    trained = (result["settings"]["preset"], result["settings"]["gamma"]) if result["epochs"] != 0 else None
    return (result["dataset"], result["normal"]) == task and trained == reading


def mean_and_range(results: Sequence[Result]) -> tuple[float, float, float]:
    """AUROC in per cent over seeds: the mean, and how far the lowest and the highest are from it."""
    values = [100 * result["metrics"]["auroc"] for result in results]
    mean = statistics.mean(values)
    return mean, mean - min(values), max(values) - mean


def draw_untrained(axis: Axes, results: Sequence[Result], task: tuple[str, int]) -> None:
    """A band from the lowest to the highest seed of the untrained network."""
    own = [result for result in results if is_of(result, task, None)]
    mean, below, above = mean_and_range(own)
    axis.axhspan(mean - below - 0.3, mean + above + 0.3, color="#bbbbbb", alpha=0.5, label="untrained")
