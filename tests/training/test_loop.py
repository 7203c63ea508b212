import signal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from normscope.errors import SettingError, TrainingError
from normscope.training import checkpoint, loop
from normscope.training.budget import MEASURED, WARM_UP
from normscope.training.encoded import Encoded
from normscope.training.loop import Plan, train
from normscope.training.method import Method
from normscope.training.method import Phase as PlannedPhase
from normscope.training.observer import Observer

Phase = partial(PlannedPhase, batch_size=4)
PIXELS = np.random.default_rng(0).integers(0, 256, (10, 3, 4, 4), dtype=np.uint8)


class Weight(Method):
    """One weight that takes a noisy step of gradient descent, and notes what it was given."""

    takes_anomalies = True

    def __init__(self, *phases, during=lambda step: None):
        super().__init__(None, (3, 4, 4))
        self.weight = nn.Parameter(torch.zeros(()))
        self.planned, self.during = phases or (Phase("train", 3),), during
        self.calls, self.asked, self.finished = [], [], []

    def phases(self):
        return self.planned

    def optimizers(self, phase):
        self.asked.append(phase)
        return {phase: torch.optim.SGD([self.weight], 0.1)}

    def step(self, batch, optimizers, progress):
        images = batch.normal
        ((name, optimizer),) = optimizers.items()
        rate = optimizer.param_groups[0]["lr"]
        self.calls.append(
            SimpleNamespace(
                phase=name,
                progress=progress,
                rate=rate,
                images=images,
                anomalous=batch.anomalous,
                training=self.training,
            )
        )
        special = self.during(len(self.calls))
        optimizer.zero_grad()
        loss = self.weight * (1 + torch.rand(())) + images.mean()
        loss.backward()
        optimizer.step()
        return {"loss": loss, **(special or {})}

    def finish(self, batches):
        self.finished.append((self.weight.item(), self.training, torch.is_grad_enabled(), torch.rand(()).item()))
        assert sum(map(len, batches)) == len(PIXELS)
        return {"weight": self.weight.detach().clone()}


class Clock:
    """Stands in for `time`: it goes on when told to."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def spend(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


class Seen(Observer):
    """Keeps what it is told of steps."""

    def __init__(self, every=0, epoch=lambda *arguments: None):
        self.every, self.steps, self.epoch = every, [], epoch

    def step(self, progress):
        self.steps.append(progress)


def fit(method, pixels, plan, observer=None, anomalies=None):
    outcome = train(method, pixels, plan, observer or Observer(), anomalies)
    loop.finish(method, Encoded(method, pixels, plan.device, 4), plan.seed)
    return outcome


def run(method, plan=None, pixels=PIXELS):
    seen = Seen()
    outcome = fit(method, pixels, plan or Plan(), seen)
    return outcome, seen.steps


def test_phases_run_in_order_each_with_its_own_optimisers():
    method = Weight(Phase("pretrain", 2), Phase("train", 3))
    outcome, seen = run(method.eval())
    assert method.asked == ["pretrain", "train"]
    assert [call.phase for call in method.calls] == ["pretrain"] * 4 + ["train"] * 6
    assert outcome == ("ok", 10)
    assert [(progress.phase, progress.step, progress.steps) for progress in seen] == [
        *(("pretrain", step, 4) for step in (1, 2, 3, 4)),
        *(("train", step, 6) for step in (1, 2, 3, 4, 5, 6)),
    ]
    assert all(call.training for call in method.calls)


def test_images_are_those_of_the_shuffled_batches():
    method = Weight(Phase("train", 1))
    run(method)
    given = torch.cat([call.images for call in method.calls])
    every = torch.from_numpy(PIXELS).float() / 127.5 - 1
    places = [int((every == image).flatten(1).all(1).nonzero()) for image in given]
    assert len(set(places)) == 8


def test_the_learning_rate_follows_progress_in_every_phase():
    method = Weight(Phase("one", 2, rate=lambda progress: 1 - progress), Phase("two", 1))
    run(method)
    assert [call.progress for call in method.calls] == [0, 0.25, 0.5, 0.75, 0, 0.5]
    assert [call.rate for call in method.calls] == pytest.approx([0.1, 0.075, 0.05, 0.025, 0.1, 0.1])


def test_finish_sees_the_weights_of_the_last_step_in_eval_mode():
    method = Weight()
    run(method)
    ((weight, training, grad, _),) = method.finished
    assert weight == method.weight.item() != 0
    assert (training, grad) == (False, False)
    assert not method.training


def test_the_last_weights_are_kept_even_if_the_loss_was_smaller_before():
    rising = Weight(during=lambda step: {"information": torch.tensor(1.0 / step), "spread": torch.tensor(1.0)})
    half = Weight(Phase("train", 3), during=rising.during)
    run(rising)
    run(half, Plan(epochs=2))
    assert rising.weight < half.weight < 0


def test_a_method_without_phases_is_only_finished():
    method = Weight()
    method.planned = ()
    outcome, seen = run(method)
    assert (outcome, seen, len(method.finished)) == (("ok", 0), [], 1)


def test_epochs_of_the_plan_replace_those_of_every_phase():
    method = Weight(Phase("one", 9), Phase("two", 1, least_steps=50))
    run(method, Plan(epochs=2))
    assert [call.phase for call in method.calls] == ["one"] * 4 + ["two"] * 4


def test_few_images_are_trained_for_the_least_steps_however_many_epochs_these_are():
    assert run(Weight(Phase("train", 3, least_steps=17)))[0].steps == 17
    assert run(Weight(Phase("train", 3, least_steps=5)))[0].steps == 6


@pytest.mark.parametrize(("recorded", "steps"), [(0.9, 8), (0.1, 14)])
def test_a_phase_goes_on_for_all_its_epochs_unless_half_of_its_least_steps_are_enough(recorded, steps):
    asked = []

    def enough(averages):
        asked.append(averages["told"])
        return averages["told"] > 0.5

    method = Weight(
        Phase("train", 7, least_steps=8, enough=enough),
        during=lambda step: {"told": torch.tensor(recorded if step <= 4 else 0.5)},
    )
    assert train(method, PIXELS, Plan(), Observer()).steps == steps  # ten images in batches of four: 2 steps an epoch
    assert asked == [pytest.approx(recorded)]
    progress = [call.progress for call in method.calls]
    assert progress[4] == 0.5
    assert progress == sorted(progress)
    assert max(progress) == pytest.approx(1 - 0.5 / (steps - 4))


def test_epochs_of_the_plan_are_kept_whether_or_not_they_are_enough():
    method = Weight(Phase("train", 5, least_steps=8, enough=lambda averages: False))
    assert train(method, PIXELS, Plan(epochs=3), Observer()).steps == 6


@pytest.mark.parametrize("phase", [Phase("train", 0), Phase("train", 3, batch_size=0)])
def test_settings_that_leave_nothing_to_train_are_refused(phase):
    with pytest.raises(SettingError, match=r"(has 0 epochs|batch_size is 0); give 1 or more"):
        run(Weight(phase))


def test_no_epochs_train_nothing_and_finish_all_the_same():
    method = Weight()
    outcome, seen = run(method, Plan(epochs=0))
    assert (outcome, seen, method.calls, len(method.finished)) == (("ok", 0), [], [], 1)


def test_labelled_anomalies_are_drawn_for_every_step():
    known = torch.arange(5.0).view(5, 1, 1, 1).expand(5, 3, 4, 4)
    method = Weight()
    fit(method, PIXELS, Plan(), anomalies=known)
    drawn = [call.anomalous[:, 0, 0, 0].tolist() for call in method.calls]
    assert {len(one) for one in drawn} == {1}  # a quarter of a batch of four
    assert len({one[0] for one in drawn}) > 1
    alone = Weight()
    fit(alone, PIXELS, Plan())
    assert all(call.anomalous.shape == (0, 3, 4, 4) for call in alone.calls)


def spending(clock, cost, *phases):
    """A method whose step number k takes cost(k) seconds."""
    return Weight(*(phases or [Phase("train", 10**6)]), during=lambda step: clock.spend(cost(step)))


def test_the_budget_is_used_up(clock):
    jitter = np.random.default_rng(0)
    method = spending(clock, lambda step: 2.0 if step <= WARM_UP else jitter.uniform(0.09, 0.11))
    outcome, seen = run(method, Plan(budget=60.0))
    assert clock.now - 100 == pytest.approx(60, rel=0.01)
    assert outcome.steps == seen[-1].step == seen[-1].steps
    assert seen[-1].seconds == pytest.approx(clock.now - 100)


@pytest.mark.parametrize("later", [0.05, 0.4])
def test_a_machine_that_becomes_slower_or_faster_does_not_change_how_long_it_takes(clock, later):
    _, seen = run(spending(clock, lambda step: 0.1 if step <= 40 else later), Plan(budget=20.0))
    assert clock.now - 100 == pytest.approx(20, rel=0.03)
    measured = WARM_UP + MEASURED
    assert [progress.steps for progress in seen[: measured - 1]] == [None] * (measured - 1)
    assert seen[measured].steps == 200


def test_progress_never_jumps_back_and_ends_whatever_is_planned(clock):
    method = spending(clock, lambda step: 0.1 if step <= 40 else 0.3)
    run(method, Plan(budget=20.0))
    after = [call.progress for call in method.calls[WARM_UP + MEASURED + 1 :]]
    steps = np.diff(after)
    assert all(0 <= call.progress < 1 for call in method.calls)
    assert (steps > 0).all()
    assert steps.max() < 0.03
    assert after[-1] + steps[-1] == pytest.approx(1)


@pytest.mark.parametrize("epochs", [None, 3])
def test_a_budget_is_an_upper_limit_and_so_are_the_epochs(clock, epochs):
    method = spending(clock, lambda step: 0.1, Phase("train", 3 if epochs is None else 100))
    outcome, _ = run(method, Plan(budget=1000.0, epochs=epochs))
    assert outcome.steps == 6


def test_the_budget_is_shared_out_by_the_epochs_of_the_phases(clock):
    method = spending(clock, lambda step: 0.1, Phase("one", 1000), Phase("two", 3000))
    run(method, Plan(budget=100.0))
    phases = [call.phase for call in method.calls]
    assert phases.count("one") == pytest.approx(250, abs=1)
    assert phases.count("two") == pytest.approx(750, abs=1)


def test_a_phase_that_goes_on_ends_with_the_budget(clock):
    longer = Phase("train", 10**6, least_steps=60, enough=lambda averages: False)
    outcome, seen = run(spending(clock, lambda step: 0.1, longer), Plan(budget=20.0))
    assert outcome.steps == pytest.approx(200, abs=5)
    assert [one.steps for one in seen if one.step == 29] == [60]


def test_a_budget_too_small_for_anything_is_one_step(clock):
    outcome, seen = run(spending(clock, lambda step: 5.0), Plan(budget=1.0))
    assert (outcome.steps, seen[-1].steps) == (1, 1)


def test_a_budget_that_ends_among_the_measured_steps_ends_there(clock):
    outcome, _ = run(spending(clock, lambda step: 1.0), Plan(budget=5.0))
    assert outcome.steps == 5


def test_a_value_that_is_not_finite_stops_training_with_its_step_and_images():
    method = Weight(during=lambda step: {"entropy": torch.tensor(torch.nan)} if step == 4 else None)
    with pytest.raises(TrainingError, match=r"entropy became nan at step 3 \(batch of images \d, \d, \d, \d\)"):
        run(method)
    assert len(method.calls) == 4
    assert method.finished == []


def test_a_collapse_is_the_health_of_the_outcome():
    outcome, _ = run(Weight(during=lambda step: {"information": torch.tensor(0.0), "spread": torch.tensor(1.0)}))
    assert outcome.health.startswith("collapsed: the codes say nothing of the image")


def trained(seed):
    method = Weight()
    run(method, Plan(seed=seed))
    return method.weight.item(), method.finished[0][3]


def test_one_seed_one_result_and_another_seed_another():
    (weight, drawn), (other_weight, other_drawn) = trained(5), trained(6)
    torch.rand(3)
    assert trained(5) == (weight, drawn)
    assert other_weight != weight
    assert other_drawn != drawn


def test_every_step_of_every_phase_draws_anew():
    drawn = []
    run(Weight(Phase("one", 2), Phase("two", 2), during=lambda step: drawn.append(torch.rand(()).item())))
    assert len(set(drawn)) == len(drawn) == 8


def test_the_generators_of_the_caller_are_left_alone():
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    run(Weight())
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_for_the_step_saves_and_stops(tmp_path, number):
    path = tmp_path / "checkpoint"
    method = Weight(during=lambda step: signal.raise_signal(number) if step == 3 else None)
    with pytest.raises(KeyboardInterrupt):
        run(method, Plan(checkpoint=path))
    state, _ = checkpoint.load(path)
    assert state["place"]["step"] == len(method.calls) == 3
    assert torch.equal(state["method"]["weight"], method.weight.detach())
    assert method.finished == []


def test_an_interrupt_while_the_last_state_is_saved_is_not_lost(tmp_path, monkeypatch):
    def save(*arguments):
        checkpoint_save(*arguments)
        signal.raise_signal(signal.SIGINT)

    checkpoint_save = checkpoint.save
    monkeypatch.setattr(checkpoint, "save", save)
    method = Weight()
    with pytest.raises(KeyboardInterrupt):
        run(method, Plan(checkpoint=tmp_path / "checkpoint"))
    assert len(method.calls) == 6
    assert method.finished == []


@pytest.mark.parametrize(("cost", "apart"), [(0.0, 1.0), (0.01, 1.0), (0.1, 5.0), (2.0, 100.0)])
def test_checkpoints_cost_at_most_two_per_cent_and_come_at_most_every_second(tmp_path, monkeypatch, clock, cost, apart):
    times = []

    def save(*arguments):
        clock.spend(cost)
        times.append(clock.now)

    monkeypatch.setattr(checkpoint, "save", save)
    each = apart / 8
    run(spending(clock, lambda step: each, Phase("train", 30)), Plan(checkpoint=tmp_path / "checkpoint"))
    *during, last = times  # the last one is due to the end of the phase
    gaps = np.diff(during) - cost
    assert times[0] - cost - 100 < 1 + 1.01 * each
    assert len(gaps) > 3
    assert ((gaps > 0.999 * apart) & (gaps < apart + 1.01 * each)).all()
    assert last == clock.now


def test_nothing_is_written_without_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoint, "save", lambda *_: pytest.fail("saved"))
    run(Weight())


def test_an_observer_sees_the_method_as_if_training_had_ended_and_changes_nothing():
    alone, watched, seen = Weight(Phase("train", 6)), Weight(Phase("train", 6)), []

    def epoch(progress, method, reference):
        torch.rand(3)
        assert not method.training
        seen.append((progress.epoch, progress.step, reference["weight"].item()))

    fit(alone, PIXELS, Plan())
    fit(watched, PIXELS, Plan(), Seen(2, epoch))
    assert [(epoch, step) for epoch, step, _ in seen] == [(2, 4), (4, 8), (6, 12)]
    assert watched.weight.item() == alone.weight.item() == seen[-1][2]
    assert watched.finished[-1] == alone.finished[-1]
    assert all(call.training for call in watched.calls)


def test_the_time_of_an_observer_is_not_the_budgets(clock):
    def method():
        return Weight(Phase("train", 1000), during=lambda step: clock.spend(1.0))

    plan = Plan(budget=100.0)
    alone = fit(method(), PIXELS, plan)
    assert fit(method(), PIXELS, plan, Seen(1, lambda *_: clock.spend(50.0))) == alone


class Half(Weight):
    most_references = 4

    def finish(self, batches):
        return {"rows": torch.cat(list(batches)).flatten(1)}


def test_finish_is_given_at_most_as_many_references_as_it_wants():
    method = Half()
    rows = loop.finish(method, Encoded(method, PIXELS, torch.device("cpu"), 3), seed=0)["rows"]
    every = torch.from_numpy(PIXELS).flatten(1).float() / 127.5 - 1
    places = [int((every == row).all(1).nonzero()) for row in rows]
    assert len(places) == 4
    assert places == sorted(set(places))
