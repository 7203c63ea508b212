"""One thread that scores: what waits together is scored together, by `Model.scored` as on the command line."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from normscope.drift import Drift, begin, carried_on
from normscope.model import Model, Scored
from normscope.server.limits import BusyError, Limits

__all__ = ["Batcher", "Load"]

Load = Callable[[], Mapping[str, Model]]

MOST_IMAGES = 256  # scored together: the first of them waits for the last


class Job(NamedTuple):
    """The images of one request."""

    model: str
    paths: Sequence[Path]
    with_heat: bool
    future: Future[list[Scored]]  # cancelled if nobody waits for it any longer


class Batcher:
    """Loads the models in its thread, then scores until it is closed. `models` is empty, and `ready` false, before."""

    def __init__(self, load: Load, limits: Limits) -> None:
        self.load = load
        self.limits = limits
        self.models: Mapping[str, Model] = {}
        self.drifts: Mapping[str, Drift] = {}  # of models with a calibration; this thread alone replaces it
        self.failure: Exception | None = None  # why there are no models
        self.batches = 0
        self.images = 0
        self.waiting: deque[Job] = deque()
        self.changed = threading.Condition()
        self.closed = False
        self.thread = threading.Thread(target=self.run, name="normscope-scoring", daemon=True)

    @property
    def ready(self) -> bool:
        return bool(self.models) and not self.closed

    def submit(self, model: str, paths: Sequence[Path], with_heat: bool) -> Future[list[Scored]]:
        """What will be said of these files, one for each; `BusyError` if too many requests wait already."""
        job = Job(model, paths, with_heat, Future())
        with self.changed:
            self.check_queue()
            self.waiting.append(job)
            self.changed.notify()
        return job.future

    def check_queue(self) -> None:
        if len(self.waiting) >= self.limits.queued:
            raise BusyError(self.limits.queue_full)

    def close(self) -> None:
        """Once everything that waits is scored."""
        with self.changed:
            self.closed = True
            self.changed.notify()
        self.thread.join()

    def run(self) -> None:
        try:
            models = self.load()
            self.drifts = {name: begin(model.calibration) for name, model in models.items() if model.calibration}
            self.models = models
        except Exception as error:
            self.failure = error
            return
        while jobs := self.next_jobs():
            self.score(jobs)

    def next_jobs(self) -> list[Job]:
        """The first job that waits, and others that can be scored with it; none once this is closed."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting or self.closed)
            together: list[Job] = []
            for job in list(self.waiting):
                images = sum(len(one.paths) for one in together)
                if not together or (alike(job, together[0]) and images + len(job.paths) <= MOST_IMAGES):
                    together.append(job)
            taken = {id(job) for job in together}
            self.waiting = deque(job for job in self.waiting if id(job) not in taken)
            return together

    def score(self, jobs: Sequence[Job]) -> None:
        """Sets every future. Where something raises, each job is scored by itself, so that one alone fails."""
        wanted = [job for job in jobs if not job.future.cancelled()]
        if not wanted:
            return
        paths = [path for job in wanted for path in job.paths]
        self.batches, self.images = self.batches + 1, self.images + len(paths)
        model, with_heat = self.models[wanted[0].model], wanted[0].with_heat
        try:
            scored = model.scored(paths, with_heat=with_heat, max_pixels=self.limits.pixels)
            results = [[next(scored) for _ in job.paths] for job in wanted]
        except Exception as error:
            if len(wanted) == 1:
                settle(wanted[0].future, error)
            else:
                for job in wanted:
                    self.score([job])
            return
        self.follow(wanted[0].model, [one for result in results for one in result])
        for job, result in zip(wanted, results, strict=True):
            settle(job.future, result)

    def follow(self, model: str, scored: Sequence[Scored]) -> None:
        """Carries the test of drift on, before anybody is answered."""
        if drift := self.drifts.get(model):
            scores = [one.row["score"] for one in scored if one.row["score"] is not None]
            self.drifts = {**self.drifts, model: carried_on(drift, scores)}


def alike(job: Job, other: Job) -> bool:
    return (job.model, job.with_heat) == (other.model, other.with_heat)


def settle(future: Future[list[Scored]], outcome: list[Scored] | Exception) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
