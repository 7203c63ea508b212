"""What every route shares: the models, what waits for them, and what was answered lately."""

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from normscope.images.notation import printable
from normscope.model import Model, Scored
from normscope.server.batching import Batcher, Load
from normscope.server.limits import BusyError, Limits, Room
from normscope.server.metrics import Metrics
from normscope.server.pictures import pictures

__all__ = ["Result", "Service"]

Result = Mapping[str, object]  # a row; with `picture` and `heatmap` where they were asked for
QUIET = 0.5  # seconds without a request, after which a server that drains is drained


class Service:
    """One process: its models and its state. Only the scoring itself is done by another thread."""

    def __init__(self, load: Load, limits: Limits, token: str | None) -> None:
        self.limits = limits
        self.token = token
        self.batcher = Batcher(load, limits)
        self.metrics = Metrics()
        self.room = Room(limits.room)
        self.history: deque[Result] = deque(maxlen=limits.history)
        self.active = 0  # requests with work to do
        self.last_active = 0.0
        self.draining = False

    @property
    def ready(self) -> bool:
        return self.batcher.ready and not self.draining

    @property
    def drained(self) -> bool:
        return self.draining and self.active == 0 and time.monotonic() - self.last_active > QUIET

    def drain(self) -> None:
        """What is in flight is answered, what comes now is refused."""
        self.draining, self.last_active = True, time.monotonic()

    def models(self) -> Mapping[str, Model]:
        if not self.batcher.models:
            raise BusyError("the models are being loaded; try again soon")
        return self.batcher.models

    def model(self, name: str | None) -> tuple[str, Model]:
        """The model of that name; the first one if no name is given."""
        models = self.models()
        name = next(iter(models)) if name is None else name
        if name not in models:
            raise HTTPException(404, f"no model {printable(name)}; choose from {', '.join(map(printable, models))}")
        return name, models[name]

    async def scored(self, model: str, paths: Sequence[Path], with_heat: bool) -> list[Scored]:
        future = self.batcher.submit(model, paths, with_heat)
        try:
            async with asyncio.timeout(self.limits.seconds):
                found = await asyncio.wrap_future(future)
        except TimeoutError:
            raise BusyError(self.limits.seconds_exceeded) from None
        for one in found:
            self.metrics.image(model, outcome(one))
        return found

    async def rows(self, model: str, names: Sequence[str], paths: Sequence[Path], heatmaps: bool) -> list[Result]:
        """A row for each file under the name that the client gave it, with pictures if heat maps are asked for."""
        with_heat = heatmaps and self.models()[model].method.scaled_heat
        scored = await self.scored(model, paths, with_heat)
        shown = await run_in_threadpool(all_pictures, paths, scored) if heatmaps else [{} for _ in scored]
        rows: list[Result] = [
            {**one.row, "path": printable(name), "error": self.explained(one.row["error"]), **pictures_of_it}
            for name, one, pictures_of_it in zip(names, scored, shown, strict=True)
        ]
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.history.extendleft({"time": now, "model": model, **row} for row in rows)
        return rows

    def explained(self, error: str | None) -> str | None:
        """An image that is too large is told whose limit that is."""
        too_large = f"pixels are more than the limit of {self.limits.pixels}"
        return f"{error}; {self.limits.pixels_exceeded}" if error and error.endswith(too_large) else error


def all_pictures(paths: Sequence[Path], scored: Sequence[Scored]) -> list[dict[str, str | None]]:
    return [pictures(path, one) for path, one in zip(paths, scored, strict=True)]


def outcome(scored: Scored) -> str:
    if scored.row["score"] is None:
        return "error"
    return {True: "anomalous", False: "normal", None: "scored"}[scored.row["anomalous"]]
