"""The loop that trains every method: phases, steps, budget, checkpoints, health; the last step's weights, always."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.optim import Optimizer

from normscope.errors import SettingError, TrainingError
from normscope.sealed import first_not_finite
from normscope.settings import JSON
from normscope.training import checkpoint
from normscope.training.batches import Pixels, drawn, shuffled, steps_per_epoch, to_float
from normscope.training.budget import MEASURED, PLANNED_EVERY, WARM_UP, affordable_steps
from normscope.training.device import reduced_precision
from normscope.training.distributed import anywhere, from_rank_0, rank, together
from normscope.training.encoded import Encoded
from normscope.training.health import Health
from normscope.training.interrupt import deferred, interrupt
from normscope.training.method import Batch, Method, Phase, Reference
from normscope.training.observer import Observer, Progress
from normscope.training.randomness import seeded
from normscope.training.state import Place, State, check_state

FINISH = 2**31  # the key under which `finish` draws; no phase has so high a number
FINISH_BATCH = 256


@dataclass(frozen=True)
class Plan:
    """How long, where and how reproducibly to train. `budget`, the seconds of all phases, is an upper limit and so are
    the epochs."""

    seed: int = 0
    epochs: int | None = None
    budget: float | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    checkpoint: Path | None = None
    resume: bool = False
    facts: Mapping[str, JSON] = field(default_factory=dict)


class Outcome(NamedTuple):
    """How training ended: `ok` or what is wrong, and how many steps it took."""

    health: str
    steps: int


def train(method: Method, pixels: Pixels, plan: Plan, observer: Observer, anomalies: Tensor | None = None) -> Outcome:
    """Runs all phases on the pixels and, if there are any, labelled anomalies [m, c, h, w]."""
    method.to(plan.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    run = Run(method, pixels, plan, observer, anomalies)
    phases = () if plan.epochs == 0 else method.phases()
    for phase in phases:
        if phase.epochs < 1:
            raise SettingError(f"phase {phase.name} has {phase.epochs} epochs; give 1 or more")
    saved = saved_state(plan, method, phases, observer)
    if saved:
        method.load_state_dict(saved["method"])
        run.place, run.health = Place(**saved["place"]), Health(saved["averages"])
    with deferred() as stop:
        for number in range(run.place.phase, len(phases)):
            run.begin_phase(number, phases[number], saved["optimizers"] if saved else None)
            saved = None
            while not run.phase_done():
                run.step()
                if anywhere(stop.number):
                    break
                run.save_if_due()
            run.save()
            if signal := anywhere(stop.number):
                interrupt(signal)
    steps = run.place.before + run.place.step
    check_finite("weight", method.state_dict(), f"after {steps} steps")
    return Outcome(run.health.verdict(method.collapse_shows_in), steps)


def finish(method: Method, encoded: Encoded, seed: int) -> Reference:
    """What the method fits in closed form to the images."""
    method.eval()
    with seeded(seed, FINISH), torch.no_grad():
        reference = method.finish(summed_up(encoded, references(method, len(encoded))))
    check_finite("reference", reference, f"fitted to {len(encoded)} images")
    return reference


def finish_held_out(method: Method, encoded: Encoded, seed: int) -> tuple[Reference, Tensor, npt.NDArray[np.intp]]:
    """`finish`, and the held-out scores of the images that it was given, with their positions."""
    method.eval()
    with seeded(seed, FINISH), torch.no_grad():
        chosen = references(method, len(encoded))
        reference, scores = method.finish_held_out(summed_up(encoded, chosen))
    check_finite("reference", reference, f"fitted to {len(encoded)} images")
    return reference, scores, chosen


def references(method: Method, n: int) -> npt.NDArray[np.intp]:
    """Which of n images `finish` is given, in order: all, or as many at random as the method wants."""
    if method.most_references is None:
        return np.arange(n)
    return torch.rand(n).argsort()[: method.most_references].sort().values.numpy()


def summed_up(encoded: Encoded, chosen: npt.NDArray[np.intp]) -> Encoded:
    return replace(encoded.subset(chosen), batch_size=FINISH_BATCH, doing="summing up")


def check_finite(what: str, tensors: Mapping[str, Tensor], when: str) -> None:
    """The record of a step is finite even if its update was not."""
    if (name := first_not_finite(tensors)) is not None:
        raise TrainingError(f"the {what} {name} has NaN or infinite values {when}; try a smaller learning_rate")


def saved_state(plan: Plan, method: Method, phases: Sequence[Phase], observer: Observer) -> State | None:
    """What rank 0 has in its checkpoint, if it is to go on from one."""
    found = None
    if rank() == 0 and plan.resume and plan.checkpoint and checkpoint.exists(plan.checkpoint):
        check = partial(check_state, method=method, phases=phases)
        found = cast(State, checkpoint.load(plan.checkpoint, plan.facts, observer.note, check)[0])
    return from_rank_0(found)


class Run:
    """One training run: what it works on, how far it has come, and the phase it is in."""

    phase: Phase
    optimizers: Mapping[str, Optimizer]

    def __init__(
        self, method: Method, pixels: Pixels, plan: Plan, observer: Observer, anomalies: Tensor | None
    ) -> None:
        self.method, self.pixels, self.plan, self.observer, self.anomalies = method, pixels, plan, observer, anomalies
        self.place, self.health = Place(), Health()
        self.saved_at, self.saving_took = time.perf_counter(), 0.0

    def begin_phase(self, number: int, phase: Phase, saved: Mapping[str, dict[str, Any]] | None) -> None:
        """At its first step, or with the `saved` state of its optimisers where it was left."""
        self.phase, self.optimizers = phase, self.method.optimizers(phase.name)
        for group in groups(self.optimizers):
            group["initial_lr"] = group["lr"]
        if saved is None:
            self.place = Place(phase=number, before=self.place.before + self.place.step)
        else:
            for name, state in saved.items():
                self.optimizers[name].load_state_dict(state)
        self.per_epoch = steps_per_epoch(len(self.pixels), phase.batch_size)
        self.allowed = share_of_budget(self.method, phase, self.plan)
        if self.allowed is None:
            self.place.steps = self.most
        self.indices = shuffled(len(self.pixels), phase.batch_size, self.place.step, self.plan.seed, self.place.phase)
        self.method.train()

    @property
    def most(self) -> int:
        """Steps of the phase; a budget may allow fewer."""
        if self.plan.epochs:
            return self.plan.epochs * self.per_epoch
        if self.phase.enough and not self.place.extended:
            return self.phase.least_steps
        return max(self.phase.epochs * self.per_epoch, self.phase.least_steps)

    def phase_done(self) -> bool:
        return self.place.steps is not None and self.place.step >= self.place.steps

    def step(self) -> None:
        place, began = self.place, time.perf_counter()
        chosen = next(self.indices)
        progress = place.progress(self.most)
        for group in groups(self.optimizers):
            group["lr"] = group["initial_lr"] * self.phase.rate(progress)
        normal = to_float(self.pixels[chosen], self.plan.device)
        with seeded(self.plan.seed, place.phase, place.step), reduced_precision(self.plan.device), together():
            batch = Batch(normal, drawn(self.anomalies, normal, self.method.anomaly_share))
            told = self.method.step(batch, self.optimizers, progress)
        record = {name: float(value.detach()) for name, value in told.items()}
        self.health.watch(record, place.step, chosen.tolist())
        place.step += 1
        seconds = time.perf_counter() - began
        place.durations.append(seconds if self.allowed is None else from_rank_0(seconds))
        place.seconds += place.durations[-1]
        self.extend_if_needed()
        if self.allowed is None:
            place.durations.clear()
        elif self.plan_due(self.allowed):
            self.plan_steps(self.allowed)
        self.show(
            Progress(self.phase.name, place.step, place.steps, place.step // self.per_epoch, place.seconds, record)
        )

    def extend_if_needed(self) -> None:
        """Halfway through the least steps of a phase that asks whether these are enough."""
        place, phase = self.place, self.phase
        if phase.enough is None or self.plan.epochs or place.step != phase.least_steps // 2:
            return
        if not phase.enough(self.health.averages):
            place.planned_progress, place.planned_step = place.progress(self.most), place.step
            place.extended = True
            place.steps = self.most  # until the budget is looked at again

    def plan_due(self, allowed: float) -> bool:
        place = self.place
        if place.step >= self.most or place.seconds >= allowed:
            return True
        measured = place.steps is not None or len(place.durations) >= WARM_UP + MEASURED
        return measured and place.seconds - place.planned_seconds >= PLANNED_EVERY * allowed

    def plan_steps(self, allowed: float) -> None:
        """As many further steps as fit, if they take as long as those since the last plan."""
        place = self.place
        if place.steps is None:
            del place.durations[:WARM_UP]
        else:
            place.planned_progress, place.planned_step = place.progress(self.most), place.step
        left = affordable_steps(allowed - place.seconds, place.durations) if place.durations else 0
        place.steps, place.planned_seconds = min(self.most, place.step + left), place.seconds
        place.durations.clear()

    def show(self, now: Progress) -> None:
        self.observer.step(now)
        if self.observer.every and now.step % (self.observer.every * self.per_epoch) == 0:
            encoded = Encoded(self.method, self.pixels, self.plan.device, FINISH_BATCH)
            self.observer.epoch(now, self.method, finish(self.method, encoded, self.plan.seed))
            self.method.train()

    def save_if_due(self) -> None:
        """So often that little is lost, and so seldom that it costs at most two per cent of the time."""
        if time.perf_counter() - self.saved_at > max(1.0, 50 * self.saving_took):
            self.save()

    def save(self) -> None:
        if self.plan.checkpoint is None or rank() > 0:
            return
        began = time.perf_counter()
        state: State = {
            "method": self.method.state_dict(),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "place": asdict(self.place),
            "averages": self.health.averages,
        }
        checkpoint.save(self.plan.checkpoint, cast(checkpoint.Tree, state), self.plan.facts)
        self.saved_at = time.perf_counter()
        self.saving_took = self.saved_at - began


def share_of_budget(method: Method, phase: Phase, plan: Plan) -> float | None:
    """A phase's seconds: the budget is shared out in proportion to the epochs that the method plans."""
    if plan.budget is None:
        return None
    return plan.budget * phase.epochs / sum(other.epochs for other in method.phases())


def groups(optimizers: Mapping[str, Optimizer]) -> list[dict[str, float]]:
    return [group for optimizer in optimizers.values() for group in optimizer.param_groups]
