"""Progress bars on standard error; nothing where nobody looks at a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from normscope.cli.output import say
from normscope.training.observer import Observer, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Display
    from rich.progress import TaskID


@contextmanager
def bars() -> Iterator[Observer]:
    """An observer with three bars, shown when they first move: parts of the work, images done, and steps trained with
    rate and loss."""
    if not sys.stderr.isatty():
        yield Notes()
        return
    from rich.console import Console  # rich takes a quarter of a second to import
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[facts]}"),
    )
    # What is printed meanwhile appears above the bars; but a standard output that goes elsewhere is left alone.
    screen, above = Console(stderr=True), sys.stdout.isatty()
    with Display(*columns, console=screen, transient=True, redirect_stdout=above) as display:
        yield Bars(display)


class Notes(Observer):
    """Says what the user should know, and nothing else."""

    def note(self, text: str) -> None:
        say(f"note: {text}")


class Bars(Notes):
    """Shows what it observes."""

    def __init__(self, display: "Display") -> None:
        self.display = display
        self.part_bar = display.add_task("", total=None, visible=False, facts="")
        self.image_bar = display.add_task("", total=None, visible=False, facts="")
        self.training_bar = display.add_task("training", total=None, visible=False, facts="")

    def parts(self, doing: str, done: int, of: int) -> None:
        self.move(self.part_bar, doing, done, of)

    def images(self, doing: str, done: int, of: int) -> None:
        self.move(self.image_bar, doing, done, of)

    def move(self, bar: "TaskID", doing: str, done: int, of: int) -> None:
        """Begun anew, a bar forgets how fast the last pass was."""
        if done == 0:
            self.display.reset(bar, total=of)
        self.display.update(bar, completed=done, total=of, visible=done < of, description=doing)

    def step(self, progress: Progress) -> None:
        self.display.update(
            self.training_bar,
            completed=progress.step,
            total=progress.steps,
            visible=True,
            description=progress.phase,
            facts=facts(progress),
        )


def facts(now: Progress) -> str:
    """Short, so that a terminal of 80 columns still has room for the bar."""
    rate = f"{now.step / max(now.seconds, 1e-9):.1f} steps/s"
    return f"{rate}  loss {now.record['loss']:.3g}" if "loss" in now.record else rate
