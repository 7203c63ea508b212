"""A fit as TensorBoard or MLflow keep it: losses by step, and in the end settings, threshold and card.

with tensorboard("runs/tiles") as observer:
    Detector().fit("good/", observer=observer)
"""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from normscope.errors import NormscopeError, SettingError
from normscope.training.observer import Observer, Progress

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["mlflow", "tensorboard", "tracker"]

EXPERIMENT = "normscope"
TOGETHER, SECONDS = 1000, 2.0  # metrics that MLflow takes in one request, and how long they wait for each other


Say = Callable[[str], None]


def tracker(text: str, say: Say = warnings.warn) -> AbstractContextManager[Observer]:
    """`tensorboard:FOLDER` or `mlflow:URI` → an observer that tracks a fit there.

    A tracker that fails later on is told to `say` and left alone: the fit goes on without it.
    """
    kind, _, place = text.partition(":")
    if kind not in TRACKERS or not place:
        raise SettingError(
            f"track is {text!r}; give tensorboard:FOLDER or mlflow:URI, such as mlflow:http://127.0.0.1:5000"
        )
    return TRACKERS[kind](place, say)


class Expendable(Observer):
    """Tells an observer all that it is told, until that raises."""

    def __init__(self, observer: "TensorBoard | MLflow", name: str, say: Say) -> None:
        self.observer, self.name, self.say = observer, name, say
        self.failed = False

    def step(self, progress: Progress) -> None:
        self.attempt(lambda: self.observer.step(progress))

    def finished(self, card: Mapping[str, object]) -> None:
        self.attempt(lambda: self.observer.finished(card))

    def attempt(self, tell: Callable[[], None]) -> None:
        if self.failed:
            return
        try:
            tell()
        except Exception as error:  # whatever it is, hours of training are worth more
            self.failed = True
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            self.say(f"{self.name} failed ({reason}); the fit goes on without it")


@contextmanager
def tensorboard(folder: str, say: Say = warnings.warn) -> Iterator[Observer]:
    """Writes events to a folder, best one of its own for each fit."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError(
            "tracking with TensorBoard needs tensorboard; pip install 'normscope[tensorboard]'"
        ) from error
    writer = SummaryWriter(folder)
    observer = Expendable(TensorBoard(writer), f"TensorBoard in {folder}", say)
    try:
        yield observer
    finally:
        observer.attempt(writer.close)


class TensorBoard(Observer):
    def __init__(self, writer: "SummaryWriter") -> None:
        self.writer = writer

    def step(self, progress: Progress) -> None:
        for name, value in figures(progress).items():
            self.writer.add_scalar(name, value, progress.step)

    def finished(self, card: Mapping[str, object]) -> None:
        for name, text in parameters(card).items():
            self.writer.add_text(f"settings/{name}", text)
        self.writer.add_text("card", f"```\n{json.dumps(card, indent=2, ensure_ascii=False)}\n```")
        for name, value in outcome(card).items():
            self.writer.add_scalar(name, value)


@contextmanager
def mlflow(uri: str, say: Say = warnings.warn) -> Iterator[Observer]:
    """A run of its own in the experiment `normscope`; one that raised is FAILED there, one interrupted KILLED."""
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise ImportError("tracking with MLflow needs mlflow; pip install 'normscope[mlflow]'") from error
    try:
        client = MlflowClient(tracking_uri=uri)
        run = MLflow(client, new_run(client))
    except MlflowException as error:
        raise NormscopeError(
            f"MLflow cannot keep the fit at {uri} ({error}); give another URI, or track none"
        ) from error
    observer, status = Expendable(run, f"MLflow at {uri}", say), "FAILED"
    try:
        yield observer
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        observer.attempt(lambda: run.end(status))


def new_run(client: "MlflowClient") -> str:
    known = client.get_experiment_by_name(EXPERIMENT)
    return str(client.create_run(known.experiment_id if known else client.create_experiment(EXPERIMENT)).info.run_id)


class MLflow(Observer):
    def __init__(self, client: "MlflowClient", run: str) -> None:
        self.client, self.run = client, run
        self.waiting: list[tuple[str, float, int, int]] = []  # key, value, milliseconds, step
        self.sent = time.monotonic()

    def step(self, progress: Progress) -> None:
        self.add(figures(progress), progress.step)
        if time.monotonic() - self.sent > SECONDS or len(self.waiting) >= TOGETHER:
            self.send()

    def finished(self, card: Mapping[str, object]) -> None:
        for name, value in parameters(card).items():
            self.client.log_param(self.run, name, value)
        self.add(outcome(card), 0)
        self.client.log_dict(self.run, dict(card), "card.json")

    def add(self, values: Mapping[str, float], step: int) -> None:
        now = round(1000 * time.time())
        self.waiting += [(name, value, now, step) for name, value in values.items()]

    def send(self) -> None:
        from mlflow.entities import Metric

        for start in range(0, len(self.waiting), TOGETHER):
            self.client.log_batch(self.run, [Metric(*one) for one in self.waiting[start : start + TOGETHER]])
        self.waiting, self.sent = [], time.monotonic()

    def end(self, status: str) -> None:
        self.send()
        self.client.set_terminated(self.run, status)


TRACKERS: Mapping[str, Callable[[str, Say], AbstractContextManager[Observer]]] = {
    "tensorboard": tensorboard,
    "mlflow": mlflow,
}


def figures(progress: Progress) -> dict[str, float]:
    """What a step recorded, and the epoch, each under the name of the phase."""
    values = {**progress.record, "epoch": float(progress.epoch)}
    return {f"{progress.phase}/{name}": value for name, value in values.items()}


def parameters(card: Mapping[str, object]) -> dict[str, str]:
    """The method, its settings, and what else governs the fit, as text."""
    settings, training = card["settings"], card["training"]
    assert isinstance(settings, Mapping)
    assert isinstance(training, Mapping)
    wanted = {"method": card["method"], **settings, "seed": training["seed"], "budget": training["budget"]}
    return {name: str(value) for name, value in wanted.items()}


def outcome(card: Mapping[str, object]) -> dict[str, float]:
    """The threshold; nothing if there was no calibration set."""
    calibration = card["calibration"]
    return {"threshold": float(calibration["threshold"])} if isinstance(calibration, Mapping) else {}
