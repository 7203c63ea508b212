"""A cell of the benchmark: one method with its settings on one normal class, with one seed."""

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version

from normscope import __version__
from normscope.benchmark.commit import commit
from normscope.benchmark.results import Result
from normscope.settings import JSON


@dataclass(frozen=True)
class Cell:
    """What is to be measured; nothing in it was chosen by looking at test labels.

    `budget` (seconds) and `epochs` are both upper limits. With `every`, a point of the learning curve is recorded
    every so many epochs. With `test_images`, only so many random test images are scored, the same for every method
    and seed: for methods whose score is slow.
    """

    dataset: str
    method: str
    normal: int
    seed: int
    budget: float | None
    settings: Mapping[str, JSON]
    epochs: int | None = None
    every: int | None = None
    test_images: int | None = None

    def key(self) -> tuple[object, ...]:
        """Hashable; equal for cells whose settings differ only in their order."""
        others = [value for name, value in vars(self).items() if name != "settings"]
        return (*others, json.dumps(self.settings, sort_keys=True))


def unmeasured(cell: Cell, threads: int) -> Result:
    """The result of a cell as far as it is known before the cell is run."""
    return {
        **asdict(cell),
        "metrics": None,
        "seconds": None,
        "images_per_second": None,
        "version": __version__,
        "torch": version("torch"),
        "commit": commit(),
        "device": "cpu",
        "cpu": platform.processor() or platform.machine(),
        "threads": threads,
        "health": None,
        "error": None,
    }
