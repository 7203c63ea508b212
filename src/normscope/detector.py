"""Detector: learn from normal images, score new ones, save and load; the mathematics is in the rooms below."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, Self, TypedDict, cast

import numpy as np
import numpy.typing as npt
import torch

from normscope import __version__, artifact, inference
from normscope.calibration import Calibration, check_rate
from normscope.card import Card, data_of, make_card, training_of
from normscope.errors import (
    ImageFolderError,
    ModelFileError,
    NormscopeError,
    NotFittedError,
    SettingError,
    TrainingError,
)
from normscope.images import store
from normscope.images.notation import printable
from normscope.images.outcome import Kind
from normscope.images.store import Store
from normscope.intake import LARGEST, SMALLEST, Images, check_worth_learning, common_size, gather, split
from normscope.methods import find, method_names, settings_of
from normscope.scoring.surprisal import beneath
from normscope.settings import JSON, build, check_counts, is_whole, to_json
from normscope.suspects import Suspect, find_suspects
from normscope.training import checkpoint as checkpoints
from normscope.training import loop
from normscope.training.batches import to_float
from normscope.training.budget import seconds as budget_seconds
from normscope.training.device import choose_device
from normscope.training.method import Method
from normscope.training.randomness import seeded

DEFAULT_BUDGET = 300.0
INITIALISE, SPLIT = 2**31 + 1, 2**31 + 2  # keys under which weights and the held-out images are drawn


class Row(TypedDict):
    """What is said of one file; a file that cannot be read has an error and nothing else."""

    path: str
    score: float | None
    p_value: float | None
    anomalous: bool | None
    error: str | None


class Detector:
    """Learns what normal images look like, then scores new ones: higher is more anomalous.

    Without `budget` (seconds, or a text like "5m") and `epochs` it trains for five minutes at most. `size` is the side
    to which images are squashed; `auto` takes the typical one, from 28 to what suits the method (64 for most).
    `false_alarm_rate` is the share of normal images that `predict` may flag: it is kept by images held out before
    training (see `calibration`). None holds nothing out: then there are scores alone, and no suspects.
    """

    def __init__(
        self,
        method: str = "surprisal",
        *,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        budget: float | str | None = None,
        epochs: int | None = None,
        size: int | Literal["auto"] = "auto",
        false_alarm_rate: float | None = 0.01,
        device: str = "auto",
    ) -> None:
        self.settings = build(settings_of(method), settings or {})
        check_counts(self.settings)
        self.device = choose_device(device)
        if size != "auto" and not (is_whole(size) and SMALLEST <= size <= LARGEST):
            raise SettingError(f"size is {size!r}; give auto or a number of pixels from {SMALLEST} to {LARGEST}")
        if epochs is not None and not (is_whole(epochs) and epochs >= 1):
            raise SettingError(f"epochs is {epochs!r}; give a whole number from 1 on")
        if not (is_whole(seed) and seed >= 0):
            raise SettingError(f"seed is {seed!r}; give a whole number from 0 on")
        if false_alarm_rate is not None:
            check_rate(false_alarm_rate)
        if budget is None and epochs is None:
            budget = DEFAULT_BUDGET
        if isinstance(budget, str):
            budget = budget_seconds(budget)
        if budget is not None and not 0 < budget < math.inf:
            raise SettingError(f"budget is {budget!r}; give seconds above 0, or a text such as 5m")
        self.name, self.seed, self.false_alarm_rate = method, int(seed), false_alarm_rate
        self.size: int | Literal["auto"] = "auto" if size == "auto" else int(size)
        self.budget = None if budget is None else float(budget)
        self.epochs = None if epochs is None else int(epochs)
        self.method: Method | None = None
        self.calibration: Calibration | None = None
        self.card: Card | None = None
        self.suspects: list[Suspect] = []

    def fit(
        self,
        images: Images,
        *,
        anomalies: Images | None = None,
        allow_collapse: bool = False,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        watch: Callable[[loop.Progress], None] = lambda progress: None,
        look: Callable[[loop.Progress], None] | None = None,
        look_every: int = 1,
        watch_images: Callable[[str, int, int], None] = lambda doing, done, of: None,
    ) -> Self:
        """Learns from normal images. Fitting again forgets what was learnt before.

        `anomalies` are images known to be bad, for a method that makes use of them. `suspects` then has those of the
        normal images that look as if they did not belong there; they were learnt from all the same.

        With `checkpoint`, the state of training is kept in that file, and `resume` goes on from it to the same result.
        The file stays until the caller, having saved the model, removes it (`training.checkpoint.remove`).

        `watch` is told of every step; `watch_images`, before and after training, of what is being done with the images,
        with how many already, and of how many. `look` is called after every `look_every` epochs, when this detector
        scores as if training had ended there; neither its result nor its time has any influence on the training.
        """
        self.method, self.calibration, self.card, self.suspects = None, None, None, []
        began = time.perf_counter()
        normal, skipped = gather(images, self.size, partial(watch_images, "reading"), find(self.name).largest_auto)
        check_worth_learning(normal)
        training, held = split(normal, self.false_alarm_rate, np.random.default_rng((self.seed, SPLIT)))
        known = self.gather_anomalies(anomalies, normal.size)
        plan = loop.Plan(
            seed=self.seed,
            epochs=self.epochs,
            budget=self.budget,
            device=self.device,
            checkpoint=Path(checkpoint) if checkpoint else None,
            resume=resume,
            facts=self.facts(training, known),
            watch_images=watch_images,
        )
        if look_every < 1:
            raise SettingError(f"look_every is {look_every}; give a whole number of epochs from 1 on")
        seen = loop.Look(look_every, self.shown_to(look)) if look else None
        method = self.untrained(normal.size)
        method.begin()
        method.anomalies = to_float(known[:], self.device) if known else None
        outcome = train(method, training, plan, watch, seen, allow_collapse)
        method.anomalies = None
        self.method = method
        if held is not None and self.false_alarm_rate is not None:
            scores = inference.scores(method, held, self.device, partial(watch_images, "calibrating"))
            self.calibration = Calibration(scores, self.false_alarm_rate)
        self.card = make_card(
            self.name,
            self.settings,
            self.calibration,
            normal.size,
            data_of(normal, training, known, len(skipped)),
            training_of(plan, outcome, time.perf_counter() - began),
        )
        if self.calibration and method.scores_quickly:
            self.suspects = find_suspects(method, normal, plan)
        method.end()
        return self

    def untrained(self, size: int) -> Method:
        with seeded(self.seed, INITIALISE):
            return find(self.name)(self.settings, (3, size, size))

    def gather_anomalies(self, anomalies: Images | None, size: int) -> Store | None:
        if anomalies is None:
            return None
        if not find(self.name).takes_anomalies:
            takers = [name for name in method_names() if find(name).takes_anomalies]
            raise SettingError(
                f"the method {self.name} learns from normal images alone; leave the anomalies out, or use one of "
                f"{', '.join(takers)}"
            )
        return gather(anomalies, size)[0]

    def shown_to(self, look: Callable[[loop.Progress], None]) -> Callable[[Method, loop.Progress], None]:
        """Lets `look` use this detector with the method it is shown, and only then."""

        def show(method: Method, progress: loop.Progress) -> None:
            self.method = method
            try:
                look(progress)
            finally:
                self.method = None

        return show

    def score(self, images: Images) -> npt.NDArray[np.float64]:
        """[n], higher is more anomalous. Files that cannot be read raise; `score_paths` gives them a row instead."""
        return self.score_store(self.read(images))

    def p_value(self, images: Images) -> npt.NDArray[np.float64]:
        """[n]: the share of held-out normal images that are at least as surprising."""
        return self.calibrated().p_values(self.score(images))

    def predict(self, images: Images) -> npt.NDArray[np.bool_]:
        """[n]: whether each image is anomalous at the false-alarm rate."""
        return self.calibrated().anomalous(self.score(images))

    def codes(self, images: Images) -> npt.NDArray[np.float64]:
        """[n, d]: what the method knows each image by."""
        codes = inference.codes(self.fitted(), self.read(images), self.device)
        if codes is None:
            raise SettingError(f"the method {self.name} has no codes; use another")
        return codes

    def explain(self, images: Images) -> npt.NDArray[np.float64]:
        """Heat maps [n, h, w]: higher where the image is more surprising. At the size of the images if these are
        arrays of one size, else at the size that the detector works at."""
        pixels = self.read(images)
        side = common_size(images) or (pixels.size, pixels.size)
        maps = inference.heat_maps(self.fitted(), pixels, self.device, side)
        if maps is None:
            raise SettingError(f"the method {self.name} cannot say where an image is surprising; use another")
        return maps

    def score_paths(self, paths: Sequence[str | Path]) -> list[Row]:
        """One row for each file, in order, as on the command line; a bad file is a row with an error."""
        return list(self.rows(paths))

    def rows(self, paths: Sequence[str | Path]) -> Iterator[Row]:
        """The rows of `score_paths` as they come, with a batch of images in memory at a time."""
        size = self.fitted().shape[-1]
        together = inference.together(self.fitted())
        for start in range(0, len(paths), together):
            some = [Path(path) for path in paths[start : start + together]]
            pixels, outcomes = store.from_paths(some, size)
            scores = iter(self.score_store(pixels))
            for one in outcomes:
                image = one.kind is Kind.IMAGE
                yield self.row(one.path, None, float(next(scores))) if image else self.row(one.path, one.reason)

    def row(self, path: Path, error: str | None, score: float | None = None) -> Row:
        known = self.calibration if score is not None else None
        scores = np.array([score], np.float64)  # NaN where there is no score, and then it is not looked at
        return {
            "path": printable(path),
            "score": score,
            "p_value": float(known.p_values(scores)[0]) if known else None,
            "anomalous": bool(known.anomalous(scores)[0]) if known else None,
            "error": error,
        }

    def save(self, path: str | Path) -> str:
        """Writes the model file, whole or not at all; returns its SHA-256."""
        return artifact.save(path, self.tensors(), cast(dict[str, JSON], self.card))

    def scoring_by(self, settings: Mapping[str, object]) -> Detector:
        """A detector with the same weights and other settings, e.g. another score; scores alone, not calibrated."""
        tensors = self.tensors()
        assert self.card is not None
        changed = to_json(build(type(self.settings), {**to_json(self.settings), **settings}))
        return from_parts(tensors, {**self.card, "settings": changed, "calibration": None}, str(self.device))

    def tensors(self) -> dict[str, torch.Tensor]:
        """What the model file holds beside the card."""
        method = self.fitted()
        tensors = {f"weights.{name}": value for name, value in method.state_dict().items()}
        tensors |= {f"memory.{name}": value for name, value in method.memory.items()}
        return tensors | (self.calibration.pack()[0] if self.calibration else {})

    def fitted(self) -> Method:
        if self.method is None:
            raise NotFittedError("this detector has not learnt anything yet; call fit first")
        return self.method

    def calibrated(self) -> Calibration:
        self.fitted()
        if self.calibration is None:
            raise NotFittedError("this detector was fitted without held-out images; fit it with a false_alarm_rate")
        return self.calibration

    def read(self, images: Images) -> Store:
        found, left_out = gather(images, self.fitted().shape[-1])
        if broken := [one for one in left_out if one.kind is Kind.UNREADABLE]:
            raise ImageFolderError(
                f"{printable(broken[0].path)} cannot be read ({broken[0].reason}); "
                "score_paths gives such a file a row of its own"
            )
        return found

    def score_store(self, pixels: Store) -> npt.NDArray[np.float64]:
        return inference.scores(self.fitted(), pixels, self.device)

    def facts(self, training: Store, anomalies: Store | None) -> dict[str, JSON]:
        """What identifies a run: a checkpoint of one is of no use to another."""
        return {
            "method": self.name,
            "settings": to_json(self.settings),
            "seed": self.seed,
            "epochs": self.epochs,
            "budget": self.budget,
            "size": training.size,
            "training images": training.sha256,
            "anomalies": anomalies.sha256 if anomalies else None,
            "normscope": __version__,
            "torch": torch.__version__,
            "device": str(self.device),
        }


def train(
    method: Method,
    pixels: Store,
    plan: loop.Plan,
    watch: Callable[[loop.Progress], None],
    look: loop.Look | None,
    allow_collapse: bool,
) -> loop.Outcome:
    """As `loop.fit`; but a collapse is an error unless allowed, and no checkpoint is left of a run that failed."""
    try:
        outcome = loop.fit(method, pixels, plan, watch, look)
        if outcome.health != "ok" and not allow_collapse:
            raise TrainingError(f"{outcome.health}; or keep the model as it is with --allow-collapse")
    except TrainingError:
        if plan.checkpoint:
            checkpoints.remove(plan.checkpoint)
        raise
    return outcome


def load(path: str | Path, *, device: str = "auto") -> Detector:
    """The detector in a model file. Nothing in the file is executed, and a file that was changed is refused."""
    tensors, card, _ = artifact.load(path)
    try:
        return from_parts(tensors, cast(Card, card), device)
    except (KeyError, TypeError, AttributeError, RuntimeError, NormscopeError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelFileError(f"{path} does not hold a model of this version ({reason}); fit it again") from error


def from_parts(tensors: Mapping[str, torch.Tensor], card: Card, device: str) -> Detector:
    training, calibration = card["training"], card["calibration"]
    detector = Detector(
        card["method"],
        settings=card["settings"],
        seed=training["seed"],
        budget=training["budget"],
        epochs=training["epochs"],
        size=card["preprocessing"]["size"],
        false_alarm_rate=cast(float, calibration["rate"]) if calibration else None,
        device=device,
    )
    method = detector.untrained(card["preprocessing"]["size"])
    method.load_state_dict(beneath(tensors, "weights."))
    method.to(detector.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    method.memory = {name: value.to(detector.device) for name, value in beneath(tensors, "memory.").items()}
    detector.method = method.eval()
    detector.calibration = Calibration.unpack(tensors, calibration) if calibration else None
    detector.card = card
    return detector
