"""The loop that trains every method: phases, steps, budget, checkpoints, health; the last step's weights, always."""

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from normscope.errors import SettingError
from normscope.settings import JSON
from normscope.training import checkpoint
from normscope.training.batches import InOrder, Pixels, shuffled, steps_per_epoch, to_float
from normscope.training.budget import MEASURED, MEASURED_SHARE, RESERVED, WARM_UP, affordable_steps
from normscope.training.device import reduced_precision
from normscope.training.health import Health
from normscope.training.interrupt import Stop, deferred
from normscope.training.method import Method, Phase
from normscope.training.randomness import seeded

FINISH = 2**31  # the key under which `finish` draws; no phase has so high a number


@dataclass(frozen=True)
class Plan:
    """How long, where and how reproducibly to train. `budget`, in seconds, is an upper limit and so are the epochs.

    `watch_images` is told what is being done with all the images, to how many already, and of how many.
    """

    seed: int = 0
    epochs: int | None = None
    budget: float | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    checkpoint: Path | None = None
    resume: bool = False
    facts: Mapping[str, JSON] = field(default_factory=dict)
    watch_images: Callable[[str, int, int], None] = lambda doing, done, of: None


class Progress(NamedTuple):
    """What a progress bar shows. `steps` is None while the budget is being measured."""

    phase: str
    step: int
    steps: int | None
    epoch: int  # how many are complete
    seconds: float
    record: Mapping[str, float]


class Look(NamedTuple):
    """Somebody who wants to see, after every so many epochs, what the method would be if training ended there.

    What is shown is a copy, so that looking cannot change the training; its time is not the budget's.
    """

    every: int
    show: Callable[[Method, Progress], None]


class Outcome(NamedTuple):
    """How training ended: `ok` or what is wrong, and how many steps it took."""

    health: str
    steps: int


@dataclass
class Place:
    """How far a run has come: enough, with the weights and optimisers, to go on as if it had not stopped."""

    phase: int = 0
    before: int = 0  # steps of earlier phases
    step: int = 0
    steps: int | None = None
    seconds: float = 0.0


class State(TypedDict):
    """What a checkpoint holds."""

    method: dict[str, Tensor]
    optimizers: dict[str, dict[str, Any]]
    place: dict[str, Any]
    averages: dict[str, float]


def fit(
    method: Method,
    pixels: Pixels,
    plan: Plan,
    watch: Callable[[Progress], None] = lambda _: None,
    look: Look | None = None,
) -> Outcome:
    """Trains, then lets the method fit its closed-form part."""
    method.to(plan.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    outcome = train(method, pixels, plan, watch, look)
    finish(method, pixels, plan)
    return outcome


def finish(method: Method, pixels: Pixels, plan: Plan) -> None:
    method.eval()
    with seeded(plan.seed, FINISH), torch.no_grad():
        method.finish(InOrder(pixels, 256, plan.device, partial(plan.watch_images, "summing up")))


def train(method: Method, pixels: Pixels, plan: Plan, watch: Callable[[Progress], None], look: Look | None) -> Outcome:
    place, health = Place(), Health()
    saved = saved_state(plan)
    if saved:
        method.load_state_dict(saved["method"])
        place, health = Place(**saved["place"]), Health(saved["averages"])
    phases = method.phases()
    for phase in phases:
        if phase.epochs < 1:
            raise SettingError(f"phase {phase.name} has {phase.epochs} epochs; give 1 or more")
    with deferred() as stop:
        for number in range(place.phase, len(phases)):
            optimizers = method.optimizers(phases[number].name)
            for group in groups(optimizers):
                group["initial_lr"] = group["lr"]
            if saved:
                for name, state in saved["optimizers"].items():
                    optimizers[name].load_state_dict(state)
                saved = None
            else:
                place = Place(phase=number, before=place.before + place.step)
            method.train()
            run_phase(method, phases[number], optimizers, pixels, plan, place, health, watch, look, stop)
        if stop.requested:  # after the last step, too late for it to notice
            raise KeyboardInterrupt
    steps = place.before + place.step
    return Outcome(health.verdict(method.collapse_shows_in), steps)


def saved_state(plan: Plan) -> State | None:
    if not (plan.resume and plan.checkpoint and checkpoint.exists(plan.checkpoint)):
        return None
    return cast(State, checkpoint.load(plan.checkpoint, expect=plan.facts)[0])


def run_phase(
    method: Method,
    phase: Phase,
    optimizers: Mapping[str, Optimizer],
    pixels: Pixels,
    plan: Plan,
    place: Place,
    health: Health,
    watch: Callable[[Progress], None],
    look: Look | None,
    stop: Stop,
) -> None:
    batch_size = method.settings.batch_size
    per_epoch = steps_per_epoch(len(pixels), batch_size)
    most = plan.epochs * per_epoch if plan.epochs else max(phase.epochs * per_epoch, phase.least_steps)
    allowed = share_of_budget(method, phase, plan)
    if allowed is None:
        place.steps = most
    durations: list[float] = []
    keep = Keeper(method, optimizers, place, health, plan)
    batches = shuffled(len(pixels), batch_size, place.step, plan.seed, place.phase)
    while place.steps is None or place.step < place.steps:
        began = time.perf_counter()
        chosen = next(batches)
        images = to_float(pixels[chosen], plan.device)
        progress = place.step / (place.steps or most)
        for group in groups(optimizers):
            group["lr"] = group["initial_lr"] * phase.rate(progress)
        with seeded(plan.seed, place.phase, place.step), reduced_precision(plan.device):
            step = method.step(images, optimizers, progress)
        record = {name: float(value.detach()) for name, value in step.items()}
        health.watch(record, place.step, chosen.tolist())
        place.step += 1
        durations.append(time.perf_counter() - began)
        place.seconds += durations[-1]
        if place.steps is None and allowed is not None:
            place.steps = fixed_steps(place, durations, allowed, most)
        now = Progress(phase.name, place.step, place.steps, place.step // per_epoch, place.seconds, record)
        watch(now)
        if look and place.step % (look.every * per_epoch) == 0:
            show(method, pixels, plan, look, now)
        if stop.requested:
            keep.now()
            raise KeyboardInterrupt
        keep.if_due()
    keep.now()


def show(method: Method, pixels: Pixels, plan: Plan, look: Look, now: Progress) -> None:
    seen = copy.deepcopy(method)
    finish(seen, pixels, plan)
    look.show(seen, now)


def share_of_budget(method: Method, phase: Phase, plan: Plan) -> float | None:
    """A phase's seconds: the budget is shared out in proportion to the epochs that the method plans."""
    if plan.budget is None:
        return None
    return plan.budget * (1 - RESERVED) * phase.epochs / sum(other.epochs for other in method.phases())


def fixed_steps(place: Place, durations: list[float], allowed: float, most: int) -> int | None:
    """The number of steps once enough of them are measured (or the time is up); None until then."""
    if place.step >= most or place.seconds >= allowed:
        return place.step
    if len(durations) < WARM_UP + MEASURED or place.seconds < MEASURED_SHARE * allowed:
        return None
    return min(most, place.step + affordable_steps(allowed - place.seconds, durations))


def groups(optimizers: Mapping[str, Optimizer]) -> list[dict[str, float]]:
    return [group for optimizer in optimizers.values() for group in optimizer.param_groups]


class Keeper:
    """Saves checkpoints so often that little is lost, and so seldom that they cost at most two per cent of the time."""

    def __init__(
        self, method: Method, optimizers: Mapping[str, Optimizer], place: Place, health: Health, plan: Plan
    ) -> None:
        self.method, self.optimizers, self.place, self.health, self.plan = method, optimizers, place, health, plan
        self.last, self.cost = time.perf_counter(), 0.0

    def if_due(self) -> None:
        if time.perf_counter() - self.last > max(1.0, 50 * self.cost):
            self.now()

    def now(self) -> None:
        if self.plan.checkpoint is None:
            return
        began = time.perf_counter()
        state: State = {
            "method": self.method.state_dict(),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "place": asdict(self.place),
            "averages": self.health.averages,
        }
        checkpoint.save(self.plan.checkpoint, cast(checkpoint.Tree, state), self.plan.facts)
        self.last = time.perf_counter()
        self.cost = self.last - began
