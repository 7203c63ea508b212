"""Images → Model, one function read top to bottom."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from normscope import __version__, inference
from normscope.calibration import Indices, held_out
from normscope.card import data_of, make_card, training_of
from normscope.choice import resolved
from normscope.errors import CollapseError, SettingError, TrainingError
from normscope.finishing import check_exclusion, finish
from normscope.folds import held_out as held_out_scores
from normscope.forecast import seconds_after_training
from normscope.images.outcome import FileOutcome
from normscope.images.size import Auto, Size, squash_note
from normscope.images.store import Store
from normscope.intake import Images, check_worth_learning, gather
from normscope.methods import find, method_names
from normscope.model import Model
from normscope.options import Options, rectangular_methods
from normscope.outliers import LOOKING, ROUNDS, Outlier, trimmed
from normscope.settings import JSON, to_json
from normscope.training import checkpoint as checkpoints
from normscope.training import loop
from normscope.training.batches import to_float
from normscope.training.distributed import from_rank_0, rank, world
from normscope.training.encoded import Encoded
from normscope.training.method import Method
from normscope.training.observer import Observer
from normscope.training.randomness import seeded

INITIALISE, SPLIT = 2**31 + 1, 2**31 + 2  # keys under which weights and the calibration set are drawn


class Prepared(NamedTuple):
    """What a fit begins with: the options and why this method, the images read, the untrained method, the split."""

    options: Options
    why: str | None
    normal: Store
    left_out: list[FileOutcome]
    anomalies: Store | None
    method: Method
    training: Indices
    calibrating: Indices


class Fitted(NamedTuple):
    """A model, the outliers among its training images, the files that were left out, and how long it took."""

    model: Model
    outliers: list[Outlier]
    left_out: list[FileOutcome]
    seconds: float


def fit(
    images: Images,
    options: Options,
    *,
    anomalies: Images | None = None,
    allow_collapse: bool = False,
    exclude_outliers: bool = False,
    checkpoint: Path | None = None,
    resume: bool = False,
    observer: Observer | None = None,
) -> Fitted:
    """Learns from normal images and, for a method that makes use of them, from labelled anomalies.

    `exclude_outliers` is for a folder that may hold anomalies (see `screened` and `finishing.finish`).

    With `checkpoint`, the state of training is kept in that file, and `resume` goes on from it to the same result. The
    file stays until the caller, having saved the model, removes it (`training.checkpoint.remove`).
    """
    began, observer = time.perf_counter(), observer or Observer()
    ready = prepare(images, options, anomalies, exclude_outliers, observer)
    images_to_fit = inference.encoded(ready.method, ready.normal, ready.options.device, observer)
    encoded = replace(images_to_fit, precision=ready.method.kept_in)
    if exclude_outliers:
        ready = screened(ready, encoded)
    options, normal, method, training = ready.options, ready.normal, ready.method, ready.training
    train_images = normal.subset(training)
    budget = from_rank_0(training_seconds(options, method, encoded, len(training), exclude_outliers, began))
    plan = make_plan(options, budget, train_images, ready.anomalies, checkpoint, resume)
    if advice := method.advice():
        observer.note(advice)
    outcome = train(method, train_images, ready.anomalies, plan, observer, allow_collapse)
    finished = finish(method, normal, encoded, training, ready.calibrating, options, exclude_outliers)
    excluded = len(finished.outliers) if exclude_outliers else 0
    card = make_card(
        options.method,
        ready.why,
        method.summary(finished.reference),
        options.settings,
        finished.calibration,
        normal.size,
        data_of(normal, train_images, ready.anomalies, len(ready.left_out), excluded),
        training_of(plan, options.budget, outcome),
    )
    model = Model(method.eval(), finished.reference, finished.calibration, card, options.device)
    observer.finished(card)
    return Fitted(model, finished.outliers, ready.left_out, time.perf_counter() - began)


def prepare(
    images: Images, options: Options, anomalies: Images | None, exclude_outliers: bool, observer: Observer
) -> Prepared:
    """All that comes before training: choose the method, read the images, split them."""
    options, why = resolved(options, images, anomalies is not None)
    if why:
        observer.note(f"{options.method} was chosen: {why}")
    check_exclusion(options, exclude_outliers)
    kind = find(options.method)
    if world() > 1 and kind.phases is Method.phases:
        raise SettingError(f"the method {options.method} trains nothing that processes could share; leave out torchrun")
    auto = Auto(kind.largest_auto, kind.rectangles, kind.pixels_auto, kind.enlarge_auto)
    size = auto if options.size == "auto" else options.size
    normal, left_out = gather(images, size, partial(observer.images, "reading"))
    check_worth_learning(normal)
    if squashed := squash_note(normal.shapes, normal.size, to_keep_the_shape(options)):
        observer.note(squashed)
    known = gather_anomalies(anomalies, options.method, normal.size)
    method = initialised(options, normal.size)
    return Prepared(options, why, normal, left_out, known, method, *split(len(normal), method, options))


def split(n: int, method: Method, options: Options) -> tuple[Indices, Indices]:
    """Indices of the images to train on and of those held out; all and none if nothing is trained or calibrated."""
    if options.false_alarm_rate is None or not method.phases():
        return np.arange(n), np.arange(0)
    return held_out(n, options.false_alarm_rate, np.random.default_rng((options.seed, SPLIT)))


def screened(ready: Prepared, images: Encoded) -> Prepared:
    """Images that disagree with the rest are not trained on, if something in the method can judge them before: a
    network learns to know outliers as well as it does the others."""
    known = ready.method.before_training()
    if known is None:
        return ready
    images.encode_all()
    folds, seed = np.arange(len(images)) % 2, ready.options.seed
    kept, _ = trimmed(known, images, folds, seed, held_out_scores(known, images, folds, seed, LOOKING)[1])
    training = from_rank_0(ready.training[kept[ready.training]])
    images.observer.note(f"the network learns from the {len(training):,} of {len(ready.training):,} that agree best")
    return ready._replace(training=training)


def initialised(options: Options, size: Size) -> Method:
    """The method before training, on its device."""
    with seeded(options.seed, INITIALISE):
        method = find(options.method)(options.settings, (3, *size))
    method.load_pretrained()
    return method.to(options.device, memory_format=torch.channels_last)  # type: ignore[call-overload]


def to_keep_the_shape(options: Options) -> str:
    """Advice to a user whose images are squashed."""
    if not find(options.method).rectangles:
        return f"one of {', '.join(rectangular_methods())} would keep their shape"
    return "cut them into shorter pieces" if options.size == "auto" else "size auto would keep their shape"


def gather_anomalies(anomalies: Images | None, method: str, size: Size) -> Store | None:
    if anomalies is None:
        return None
    if not find(method).takes_anomalies:
        takers = [name for name in method_names() if find(name).takes_anomalies]
        raise SettingError(
            f"the method {method} learns from normal images alone; leave the anomalies out, or use one of "
            f"{', '.join(takers)}"
        )
    return gather(anomalies, size)[0]


def train(
    method: Method, pixels: Store, anomalies: Store | None, plan: loop.Plan, observer: Observer, allow_collapse: bool
) -> loop.Outcome:
    """A collapse is an error unless allowed, and no checkpoint is left of a run that failed."""
    try:
        known = to_float(anomalies[:], plan.device) if anomalies else None
        outcome = loop.train(method, pixels, plan, observer, known)
        if outcome.health != "ok" and not allow_collapse:
            raise CollapseError(f"{outcome.health}; or allow a collapse, to keep the model as it is")
    except TrainingError:
        if plan.checkpoint and rank() == 0:
            checkpoints.remove(plan.checkpoint)
        raise
    return outcome


def training_seconds(
    options: Options, method: Method, images: Encoded, trained: int, exclude_outliers: bool, began: float
) -> float | None:
    """What the budget leaves for training, at least half of it: less what was spent since `began`, on reading, on what
    a frozen network makes of the images and on this forecast, and what comes after."""
    if options.budget is None or not method.phases():
        return options.budget
    images.encode_all()
    searches = 0 if options.false_alarm_rate is None else 1 + ROUNDS * exclude_outliers
    after = seconds_after_training(method, replace(images, observer=Observer()), trained, searches, options.budget)
    return max(options.budget / 2, options.budget - after - (time.perf_counter() - began))


def make_plan(
    options: Options,
    budget: float | None,
    training: Store,
    anomalies: Store | None,
    checkpoint: Path | None,
    resume: bool,
) -> loop.Plan:
    return loop.Plan(
        seed=options.seed,
        epochs=options.epochs,
        budget=budget,
        device=options.device,
        checkpoint=checkpoint,
        resume=resume,
        facts=facts(options, training, anomalies),
    )


def facts(options: Options, training: Store, anomalies: Store | None) -> dict[str, JSON]:
    """What identifies a run: a checkpoint of one is of no use to another."""
    return {
        "method": options.method,
        "settings": to_json(options.settings),
        "seed": options.seed,
        "epochs": options.epochs,
        "budget": options.budget,
        "size": list(training.size),
        "training images": training.sha256,
        "anomalies": anomalies.sha256 if anomalies else None,
        "normscope": __version__,
        "torch": torch.__version__,
        "device": str(options.device),
    }
