"""What a fit would do, and the time and memory it needs: a little of it is done and measured, nothing is written.

Images are read as for a fit, a few steps of each phase are trained. For a method that trains nothing, one fold is done
at its full size; but of images that go through a frozen encoder first, only a batch does, and stands for all others.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from normscope import inference
from normscope.calibration import Indices
from normscope.finishing import FOLDS
from normscope.fitting import Prepared, make_plan, prepare, screened, training_seconds
from normscope.folds import drawn
from normscope.forecast import seconds_after_training
from normscope.images.outcome import FileOutcome
from normscope.images.size import Size
from normscope.intake import Images
from normscope.options import Options
from normscope.outliers import ROUNDS
from normscope.scoring.held_out import fold_count
from normscope.training import loop
from normscope.training.batches import to_float
from normscope.training.budget import MEASURED, WARM_UP
from normscope.training.encoded import MOST_BYTES, MOST_PIXELS, Encoded
from normscope.training.method import Method
from normscope.training.observer import Observer
from normscope.training.randomness import seeded

LONG = float(10**9)  # seconds: a budget that limits nothing


class Forecast(NamedTuple):
    """`folds` is 0 where images are held out; `memory` is in bytes, None where the system does not tell."""

    method: str
    why: str | None
    size: Size
    images: int
    left_out: list[FileOutcome]
    trained_on: int
    calibrated_with: int
    folds: int
    steps: int
    reading: float  # seconds, as are the next two
    training: float
    finishing: float
    memory: int | None

    @property
    def seconds(self) -> float:
        return self.reading + self.training + self.finishing


def forecast(
    images: Images,
    options: Options,
    *,
    anomalies: Images | None = None,
    exclude_outliers: bool = False,
    observer: Observer | None = None,
) -> Forecast:
    """Of `fitting.fit` with the same arguments."""
    began, observer = time.perf_counter(), observer or Observer()
    ready = prepare(images, options, anomalies, exclude_outliers, observer)
    n, options, reading = len(ready.normal), ready.options, time.perf_counter() - began
    folds, steps, training, kept = 0, 0, 0.0, 0
    if ready.method.phases():
        encoded = inference.encoded(ready.method, ready.normal, options.device)
        encoded.encode_all()
        ready = screened(ready, encoded) if exclude_outliers else ready
        encoding = time.perf_counter() - began - reading
        training, finishing, steps = trained(ready, encoded, exclude_outliers, began)
        finishing += encoding
    else:
        observer.images("rehearsing", 0, 1)
        rehearsed = rehearse(ready)
        observer.images("rehearsing", 1, 1)
        rounds = 0 if options.false_alarm_rate is None else 1 + ROUNDS * exclude_outliers
        if ready.method.holds_out:  # the first round makes the reference on the way, unless outliers are left out of it
            folds, each, times = fold_count(n), 1, rounds if exclude_outliers else 0
        else:
            folds = each = len(np.unique(own_folds(n, options.seed)))
            times = folds * rounds
        finishing, kept = run_seconds(rehearsed, n, each, times), rehearsed.kept(n, each)
    calibrated = n if folds else len(ready.calibrating)
    peak = peak_memory()
    return Forecast(
        options.method,
        ready.why,
        ready.normal.size,
        n,
        ready.left_out,
        len(ready.training),
        calibrated,
        folds,
        steps,
        reading,
        training,
        finishing,
        None if peak is None else peak + kept,
    )


def trained(ready: Prepared, encoded: Encoded, exclude_outliers: bool, began: float) -> tuple[float, float, int]:
    """Seconds of training and of what comes after, and steps; a budget and the epochs are both upper limits."""
    options, method, count = ready.options, ready.method, len(ready.training)
    searches = 0 if options.false_alarm_rate is None else 1 + ROUNDS * exclude_outliers
    after = seconds_after_training(method, encoded, count, searches, options.budget or LONG)
    budget = training_seconds(options, method, encoded, count, exclude_outliers, began)
    images = ready.normal.subset(ready.training)
    plan = make_plan(options, budget, images, ready.anomalies, None, False)
    known = to_float(ready.anomalies[:], plan.device) if ready.anomalies else None
    run = loop.Run(method, images, replace(plan, budget=None), Observer(), known)
    seconds, steps = 0.0, 0
    for number, phase in enumerate(() if plan.epochs == 0 else method.phases()):
        run.begin_phase(number, phase, None)
        each = step_seconds(run)
        allowed = loop.share_of_budget(method, phase, plan)
        affordable = run.most if allowed is None else max(1, min(run.most, int(allowed / each)))
        seconds, steps = seconds + affordable * each, steps + affordable
    return seconds, after, steps


def step_seconds(run: loop.Run) -> float:
    """Mean of a few steps, after the first ones, which warm up."""
    for _ in range(min(WARM_UP, run.most)):
        run.step()
    began, count = time.perf_counter(), max(1, min(MEASURED, run.most - WARM_UP))
    for _ in range(count):
        run.step()
    return (time.perf_counter() - began) / count


@dataclass
class Encoder:
    """What an encoding function makes of a batch, how long it takes for an image, and which images it was asked for."""

    made: Tensor
    seconds: float
    took: float  # seconds, of the rehearsal
    asked: int = 0
    images: set[int] = field(default_factory=set)

    @property
    def nbytes(self) -> int:
        return self.made[0].nbytes


@dataclass(frozen=True)
class Stand:
    """As `training.encoded.Encoded`, except that one batch is encoded and stands for all other images."""

    method: Method
    pixels: Tensor  # [k, c, h, w] of the batch
    total: int  # images
    indices: npt.NDArray[np.intp]  # modulo the number of images
    together: int
    encoders: dict[str, Encoder]
    encode: Callable[[Tensor], Tensor]

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Tensor]:
        if len(self) == 0:
            return
        encoder = self.encoder()
        for start in range(0, len(self), self.together):
            chosen = self.indices[start : start + self.together]
            encoder.images.update((chosen if self.encode != self.method.encode else chosen % self.total).tolist())
            encoder.asked += len(chosen)
            yield encoder.made[torch.from_numpy(chosen % len(encoder.made))].to(self.pixels.device)

    def encoder(self) -> Encoder:
        name = self.encode.__name__
        if name not in self.encoders:
            start = time.perf_counter()
            self.encode(self.pixels[:2])  # warms up
            began = time.perf_counter()
            made = self.encode(self.pixels).to("cpu", self.method.kept_in)
            ended = time.perf_counter()
            self.encoders[name] = Encoder(made, (ended - began) / len(made), ended - start)
        return self.encoders[name]

    def subset(self, indices: npt.NDArray[np.intp]) -> "Stand":
        return replace(self, indices=self.indices[indices])

    def through(self, encode: Callable[[Tensor], Tensor]) -> "Stand":
        return replace(self, encode=encode)

    def repeated(self, times: int) -> "Stand":
        again = [self.indices + number * self.total for number in range(times)]
        return replace(self, indices=np.concatenate(again))


class Rehearsed(NamedTuple):
    """One fold: seconds to fit its reference and to score it without the encoding, of how many images, and encoders."""

    others: int
    finish: float
    score: float
    encoders: list[Encoder]

    def encoded(self, n: int, folds: int) -> list[float]:
        """How many of n images each encoder is asked for in a run, at least once: folds draw other images each."""
        shares = [len(one.images) / self.others for one in self.encoders]
        return [n * (share if share >= 1 else 1 - (1 - share) ** folds) for share in shares]

    def kept(self, n: int, folds: int) -> int:
        """Bytes of encodings that a run keeps."""
        counts = self.encoded(n, folds)
        return min(MOST_BYTES, int(sum(k * one.nbytes for k, one in zip(counts, self.encoders, strict=True))))


def run_seconds(one: Rehearsed, n: int, folds: int, times: int) -> float:
    """A fold so many times, and the reference of all; each image is encoded once, if there is room to keep it."""
    total = times * (one.finish + one.score) + one.finish
    counts = one.encoded(n, folds)
    wanted = sum(count * encoder.nbytes for count, encoder in zip(counts, one.encoders, strict=True))
    room = min(1.0, MOST_BYTES / wanted) if wanted else 1.0
    for count, encoder in zip(counts, one.encoders, strict=True):
        total += encoder.seconds * (room * count + (1 - room) * encoder.asked * (times + 1))
    return total


def rehearse(ready: Prepared) -> Rehearsed:
    """One fold of a method that trains nothing; all images at once for one that holds out by itself."""
    n = len(ready.normal)
    folds = np.ones(n) if ready.method.holds_out else own_folds(n, ready.options.seed)
    others, own = np.flatnonzero(folds != 0), np.flatnonzero(folds == 0)
    return (rehearse_encoded if ready.method.encodes else rehearse_fold)(ready, others, own)


def rehearse_fold(ready: Prepared, others: Indices, own: Indices) -> Rehearsed:
    images = inference.encoded(ready.method, ready.normal, ready.options.device)
    began = time.perf_counter()
    reference = loop.finish(ready.method, images.subset(others), ready.options.seed)
    between = time.perf_counter()
    inference.scores(ready.method, reference, images.subset(own))
    return Rehearsed(len(others), between - began, time.perf_counter() - between, [])


def rehearse_encoded(ready: Prepared, others: Indices, own: Indices) -> Rehearsed:
    method, options = ready.method.eval(), ready.options
    together = min(loop.FINISH_BATCH, max(1, MOST_PIXELS // math.prod(method.shape[1:])), len(ready.normal))
    pixels, encoders = to_float(ready.normal[:together], options.device), dict[str, Encoder]()
    given = others[: method.most_references]
    images = Stand(method, pixels, len(ready.normal), given, together, encoders, method.encode)
    with seeded(options.seed, loop.FINISH), torch.no_grad():
        began = time.perf_counter()
        reference = method.finish(images)
        between = time.perf_counter()
        for batch in replace(images, indices=own):
            method.score(batch, reference)
    encoding = sum(encoder.took for encoder in encoders.values())
    finish, score = between - began - encoding, time.perf_counter() - between
    return Rehearsed(len(others), max(0.0, finish), score, list(encoders.values()))


def own_folds(n: int, seed: int) -> npt.NDArray[np.intp]:
    """As `finishing.finish` draws them."""
    return drawn(n, np.random.default_rng((seed, FOLDS)))


def peak_memory() -> int | None:
    """The most that this process ever held, in bytes; what a fit keeps besides comes on top."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
