"""Progress bars on standard error; nothing where nobody looks at a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from normscope.training import loop


class Bars(NamedTuple):
    images: Callable[[str, int, int], None]
    training: "Callable[[loop.Progress], None]"


@contextmanager
def bars() -> Iterator[Bars]:
    """Two bars, shown when they first move: images done, and steps trained with time left, rate and loss."""
    if not sys.stderr.isatty():
        yield Bars(lambda doing, done, of: None, lambda now: None)
        return
    from rich.console import Console  # rich takes a quarter of a second to import
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[facts]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        images = progress.add_task("", total=None, visible=False, facts="")
        training = progress.add_task("training", total=None, visible=False, facts="")

        def show(doing: str, done: int, of: int) -> None:
            progress.update(images, completed=done, total=of, visible=done < of, description=doing)

        def train(now: "loop.Progress") -> None:
            progress.update(
                training,
                completed=now.step,
                total=now.steps,
                visible=True,
                description=now.phase,
                facts=facts(now),
            )

        yield Bars(show, train)


def facts(now: "loop.Progress") -> str:
    """Short, so that a terminal of 80 columns still has room for the bar."""
    rate = f"{now.step / max(now.seconds, 1e-9):.1f} steps/s"
    return f"{rate}  loss {now.record['loss']:.3g}" if "loss" in now.record else rate
