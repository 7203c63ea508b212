import signal
from functools import partial
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from normscope.errors import CheckpointError
from normscope.objective.entropy import laplace
from normscope.objective.information import donsker_varadhan
from normscope.objective.trade_off import TradeOff
from normscope.training import checkpoint, loop
from normscope.training.loop import Plan
from normscope.training.method import Method
from normscope.training.method import Phase as PlannedPhase
from normscope.training.observer import Observer
from normscope.training.randomness import seeded
from normscope.training.steps import update

PIXELS = np.random.default_rng(0).integers(0, 256, (14, 3, 6, 6), dtype=np.uint8)
STEPS = 6 + 9  # three batches an epoch, two epochs and then three


Phase = partial(PlannedPhase, batch_size=4)


class Seen(Observer):
    def __init__(self, told):
        self.step = told


def fit(method, pixels, plan, told=lambda progress: None):
    return loop.train(method, pixels, plan, Seen(told))


class Toy(Method):
    """All that a method may keep: weights in two layouts, batch norm, momentum, two optimisers, a moving average."""

    def __init__(self, stop_at=None, stop=lambda: signal.raise_signal(signal.SIGINT)):
        super().__init__(None, (3, 6, 6))
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Conv2d(4, 4, 3))
        self.head = nn.Linear(16, 3)
        self.trade_off = TradeOff(donsker_varadhan, "auto", ramp=0.5)
        self.stop_at, self.stop, self.steps = stop_at, stop, count(1)

    def phases(self):
        return [
            Phase("pretrain", 2, rate=lambda progress: 1 - progress),
            Phase("train", 3, rate=lambda progress: 1 - progress**2),
        ]

    def optimizers(self, phase):
        if phase == "pretrain":
            return {"both": torch.optim.SGD(self.parameters(), 0.01, momentum=0.9)}
        return {
            "body": torch.optim.AdamW(self.body.parameters(), 0.01),
            "head": torch.optim.RMSprop(self.head.parameters(), 0.01),
        }

    def step(self, batch, optimizers, progress):
        images = batch.normal
        if next(self.steps) == self.stop_at:
            self.stop()
        z = self.head(self.body(images + 0.1 * torch.randn(images.shape)).flatten(1))
        loss, record = self.trade_off([(z[:, 0], z[:, 1:] @ z[:, 1:].T)], laplace(z), progress)
        for optimizer in optimizers.values():
            update(optimizer, loss if len(optimizers) == 1 else self.head(self.body(images).flatten(1)).square().mean())
        return record


def new(**kwargs):
    with seeded(0):
        return Toy(**kwargs)


def bits(method):
    return {
        name: value.contiguous().reshape(-1).view(torch.uint8).tolist() for name, value in method.state_dict().items()
    }


@pytest.fixture(scope="module")
def whole():
    """A run that never stopped: its bits, its health's averages and its steps."""
    return trained(new(), Plan(seed=3))


def trained(method, plan):
    seen, averages = [], {}

    class Watching(loop.Health):
        def verdict(self, signs):
            averages.update(self.averages)
            return super().verdict(signs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "Health", Watching)
        outcome = fit(method, PIXELS, plan, lambda progress: seen.append(progress._replace(seconds=0)))
    return bits(method), averages, outcome, seen


@pytest.mark.parametrize("stop_at", [1, 2, 3, 5, 6, 7, 11, STEPS])
def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, whole, stop_at):
    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(new(stop_at=stop_at), PIXELS, Plan(seed=3, checkpoint=path))
    state, averages, outcome, seen = trained(new(), Plan(seed=3, checkpoint=path, resume=True))
    assert state == whole[0]
    assert averages == whole[1]
    assert outcome == whole[2]
    assert outcome.steps == STEPS
    assert seen == whole[3][stop_at:]


class Longer(Toy):
    """Its least steps are never enough: after three of six it goes on for all epochs."""

    def phases(self):
        return [Phase("train", STEPS, rate=lambda p: 1 - p, least_steps=6, enough=lambda averages: False)]


@pytest.mark.parametrize("stop_at", [2, 3, 4, 8])
def test_a_run_interrupted_about_when_it_is_extended_goes_on_to_the_same_bits(tmp_path, stop_at):
    def new_longer(**kwargs):
        with seeded(0):
            return Longer(**kwargs)

    whole, path = trained(new_longer(), Plan(seed=3)), tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(new_longer(stop_at=stop_at), PIXELS, Plan(seed=3, checkpoint=path))
    state, averages, outcome, seen = trained(new_longer(), Plan(seed=3, checkpoint=path, resume=True))
    assert (state, averages, outcome) == whole[:3]
    assert outcome.steps > 6
    assert seen == whole[3][stop_at:]


class CutOffError(Exception):
    pass


def cut_off():
    raise CutOffError


def test_a_run_cut_off_in_the_middle_of_every_step_goes_on_to_the_same_bits(tmp_path, monkeypatch, whole):
    path = tmp_path / "checkpoint"
    ticks = count(0.0, 10.0)  # time flies, so that every step is saved
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    monkeypatch.setattr(loop.Run, "save_if_due", loop.Run.save)
    for _ in range(STEPS - 1):
        with pytest.raises(CutOffError):
            fit(new(stop_at=2, stop=cut_off), PIXELS, Plan(seed=3, checkpoint=path, resume=True))
    state, averages, outcome, seen = trained(new(), Plan(seed=3, checkpoint=path, resume=True))
    assert (state, averages, outcome) == whole[:3]
    assert len(seen) == 1


def test_a_run_cut_off_after_the_last_step_is_only_finished(tmp_path, whole):
    path = tmp_path / "checkpoint"
    fit(new(), PIXELS, Plan(seed=3, checkpoint=path))
    state, averages, outcome, seen = trained(new(), Plan(seed=3, checkpoint=path, resume=True))
    assert (state, averages, outcome, seen) == (*whole[:3], [])


def test_without_resume_a_checkpoint_is_not_looked_at(tmp_path, whole):
    path = tmp_path / "checkpoint"
    path.write_bytes(b"of something else")
    state, _, _, seen = trained(new(), Plan(seed=3, checkpoint=path))
    assert state == whole[0]
    assert len(seen) == STEPS


def test_resuming_without_a_checkpoint_begins_at_the_beginning(tmp_path, whole):
    state, _, _, seen = trained(new(), Plan(seed=3, checkpoint=tmp_path / "none", resume=True))
    assert state == whole[0]
    assert len(seen) == STEPS


def test_what_is_saved_says_where_training_was(tmp_path):
    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(new(stop_at=8), PIXELS, Plan(seed=3, checkpoint=path, facts={"seed": 3}))
    state, facts = checkpoint.load(path)
    assert facts == {"seed": 3}
    assert {key: state["place"][key] for key in ("phase", "before", "step", "steps")} == {
        "phase": 1,
        "before": 6,
        "step": 2,
        "steps": 9,
    }
    assert set(state["optimizers"]) == {"body", "head"}


def test_a_checkpoint_of_another_run_is_refused_and_kept(tmp_path):
    path = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(new(stop_at=4), PIXELS, Plan(seed=3, checkpoint=path, facts={"seed": 3}))
    before = path.read_bytes()
    method = new()
    with pytest.raises(CheckpointError, match=r"is of another run \(seed 3, now 4\)"):
        fit(method, PIXELS, Plan(seed=4, checkpoint=path, resume=True, facts={"seed": 4}))
    assert path.read_bytes() == before
    assert bits(method) == bits(new())


def test_a_resumed_run_keeps_its_plan_and_its_budget(tmp_path, monkeypatch):
    path, now = tmp_path / "checkpoint", SimpleNamespace(seconds=0.0, each=0.1)

    def tick():
        now.seconds += now.each
        return now.seconds

    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=tick))
    monkeypatch.setattr(Toy, "phases", lambda self: [Phase("train", 10**6)])
    seen = []
    with pytest.raises(KeyboardInterrupt):
        fit(new(stop_at=30), PIXELS, Plan(budget=10.0, checkpoint=path), seen.append)
    planned = seen[-1].steps
    now.each = 0.5  # a slower machine
    fit(new(), PIXELS, Plan(budget=10.0, checkpoint=path, resume=True), seen.append)
    assert [progress.step for progress in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].step == seen[-1].steps < planned
    assert seen[-1].seconds == pytest.approx(10.0, abs=0.6)


def test_with_a_budget_too_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    path, ticks = tmp_path / "checkpoint", count(0.0, 0.1)
    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    monkeypatch.setattr(Toy, "phases", lambda self: [Phase("train", 10**6, rate=lambda progress: 1 - progress)])
    whole = trained(new(), Plan(budget=6.0))
    for stop_at in (5, 14, 20):
        with pytest.raises(KeyboardInterrupt):
            fit(new(stop_at=stop_at), PIXELS, Plan(budget=6.0, checkpoint=path, resume=True))
    assert trained(new(), Plan(budget=6.0, checkpoint=path, resume=True))[0] == whole[0]
