"""Images → Model, one function read top to bottom."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from normscope import __version__, inference
from normscope.calibration import Calibration, held_out
from normscope.card import data_of, make_card, training_of
from normscope.errors import CollapseError, SettingError, TrainingError
from normscope.forecast import seconds_after_training
from normscope.images.outcome import FileOutcome
from normscope.images.store import Store
from normscope.intake import Images, check_worth_learning, gather
from normscope.methods import find, method_names
from normscope.model import Model
from normscope.options import Options
from normscope.outliers import Outlier, find_outliers
from normscope.settings import JSON, to_json
from normscope.training import checkpoint as checkpoints
from normscope.training import loop
from normscope.training.batches import to_float
from normscope.training.encoded import Encoded
from normscope.training.method import Method
from normscope.training.observer import Observer
from normscope.training.randomness import seeded

INITIALISE, SPLIT = 2**31 + 1, 2**31 + 2  # keys under which weights and the calibration set are drawn


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
    checkpoint: Path | None = None,
    resume: bool = False,
    observer: Observer | None = None,
) -> Fitted:
    """Learns from normal images and, for a method that makes use of them, from labelled anomalies.

    With `checkpoint`, the state of training is kept in that file, and `resume` goes on from it to the same result. The
    file stays until the caller, having saved the model, removes it (`training.checkpoint.remove`).
    """
    began, observer = time.perf_counter(), observer or Observer()
    largest_auto = find(options.method).largest_auto
    normal, left_out = gather(images, options.size, partial(observer.images, "reading"), largest_auto)
    check_worth_learning(normal)
    known = gather_anomalies(anomalies, options.method, normal.size)
    training, calibrating = split(len(normal), options)
    train_images = normal.subset(training)
    method = initialised(options, normal.size)
    encoded = inference.encoded(method, normal, options.device, observer)
    budget = training_seconds(options, method, encoded, len(training), time.perf_counter() - began)
    plan = make_plan(options, budget, train_images, known, checkpoint, resume)
    if advice := method.advice():
        observer.note(advice)
    outcome = train(method, train_images, known, plan, observer, allow_collapse)
    reference = loop.finish(method, encoded.subset(training), options.seed)
    calibration, outliers = None, list[Outlier]()
    if options.false_alarm_rate is not None:
        scores = inference.scores(method, reference, encoded.subset(calibrating, "calibrating"))
        calibration = Calibration(scores, options.false_alarm_rate)
        if method.scores_quickly:
            outliers = find_outliers(method, normal, encoded, options.seed)
    data = data_of(normal, train_images, known, len(left_out))
    trained = training_of(plan, options.budget, outcome)
    card = make_card(options.method, options.settings, calibration, normal.size, data, trained)
    model = Model(method.eval(), reference, calibration, card, options.device)
    return Fitted(model, outliers, left_out, time.perf_counter() - began)


def split(n: int, options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the images to train on and of the calibration set; all and none without a false-alarm rate."""
    if options.false_alarm_rate is None:
        return np.arange(n), np.arange(0)
    return held_out(n, options.false_alarm_rate, np.random.default_rng((options.seed, SPLIT)))


def initialised(options: Options, size: int) -> Method:
    """The method before training, on its device."""
    with seeded(options.seed, INITIALISE):
        method = find(options.method)(options.settings, (3, size, size))
    method.load_pretrained()
    return method.to(options.device, memory_format=torch.channels_last)  # type: ignore[call-overload]


def gather_anomalies(anomalies: Images | None, method: str, size: int) -> Store | None:
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
        if plan.checkpoint:
            checkpoints.remove(plan.checkpoint)
        raise
    return outcome


def training_seconds(options: Options, method: Method, images: Encoded, trained: int, spent: float) -> float | None:
    """What the budget leaves for training, at least half of it: less what was spent on reading and what comes after."""
    if options.budget is None or not method.phases():
        return options.budget
    calibrates = options.false_alarm_rate is not None
    began = time.perf_counter()
    after = seconds_after_training(method, replace(images, observer=Observer()), trained, calibrates, options.budget)
    return max(options.budget / 2, options.budget - spent - after - (time.perf_counter() - began))


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
        "size": training.size,
        "training images": training.sha256,
        "anomalies": anomalies.sha256 if anomalies else None,
        "normscope": __version__,
        "torch": torch.__version__,
        "device": str(options.device),
    }
