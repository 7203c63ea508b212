"""Progress bars on standard error; nothing where nobody looks at a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from normscope.training import loop


class Bars(NamedTuple):
    reading: Callable[[int, int], None]
    training: "Callable[[loop.Progress], None]"


@contextmanager
def bars() -> Iterator[Bars]:
    """Two bars, shown when they first move: files read, and steps trained with rate, time left and losses."""
    from rich.console import Console  # rich takes a quarter of a second to import
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[facts]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        reading = progress.add_task("reading", visible=False, facts="")
        training = progress.add_task("training", visible=False, facts="")

        def read(done: int, of: int) -> None:
            progress.update(reading, completed=done, total=of, visible=done < of)

        def train(now: "loop.Progress") -> None:
            losses = "  ".join(f"{name} {value:.3g}" for name, value in now.record.items())
            facts = f"{now.step / max(now.seconds, 1e-9):.1f} steps/s  {losses}"
            progress.update(
                training, completed=now.step, total=now.steps, visible=True, description=now.phase, facts=facts
            )

        yield Bars(read, train)
