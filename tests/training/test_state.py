"""Contents of a checkpoint that are not what this training saves count as damage, whatever the checksum says."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from normscope.errors import CheckpointError
from normscope.files import previous
from normscope.training import checkpoint, loop
from normscope.training.loop import Plan
from normscope.training.method import Method, Phase
from normscope.training.observer import Observer
from normscope.training.randomness import seeded
from normscope.training.state import check_state
from normscope.training.steps import update

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 3, 4, 4), dtype=np.uint8)


class Notes(Observer):
    def __init__(self):
        self.said = []

    def note(self, text):
        self.said.append(text)


class Two(Method):
    """Two optimisers, one of which is used in every second step alone."""

    def __init__(self):
        super().__init__(None, (3, 4, 4))
        self.often, self.seldom = nn.Linear(48, 2), nn.Linear(48, 2)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def phases(self):
        return [Phase("first", 1, 4), Phase("second", 2, 4)]

    def optimizers(self, phase):
        return {
            "often": torch.optim.AdamW(self.often.parameters(), 0.01, betas=(0.5, 0.9)),
            "seldom": torch.optim.SGD(self.seldom.parameters(), 0.01, momentum=0.9),
        }

    def step(self, batch, optimizers, progress):
        name = "seldom" if self.steps % 2 else "often"
        loss = getattr(self, name)(batch.normal.flatten(1)).square().mean()
        update(optimizers[name], loss)
        self.steps += 1
        return {"loss": loss}


def new():
    with seeded(0):
        return Two()


def bits(method):
    return {name: value.tolist() for name, value in method.state_dict().items()}


def train(path, resume=False, observer=None):
    method = new()
    loop.train(method, PIXELS, Plan(checkpoint=path, resume=resume), observer or Observer())
    return bits(method)


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A checkpoint for each step of a run that went to its end, and that end."""
    states = []
    monkeypatch.setattr(loop.Run, "save_if_due", loop.Run.save)
    with monkeypatch.context() as patch:
        save = checkpoint.save
        patch.setattr(checkpoint, "save", lambda *given: (save(*given), states.append(checkpoint.read(given[0])[0])))
        end = train(tmp_path / "c")
    return states, end


def test_whatever_training_saves_is_accepted(saved):
    for state in saved[0]:
        check_state(state, new(), new().phases())


def changed(state, at, value):
    """A copy of the tree with another value there, or without one if that is None."""
    if not at:
        return value
    inner = {**state} if isinstance(state, dict) else list(state)
    if value is None and len(at) == 1:
        del inner[at[0]]
    else:
        inner[at[0]] = changed(inner.get(at[0]) if isinstance(inner, dict) else inner[at[0]], at[1:], value)
    return inner


GROUP = ("optimizers", "often", "param_groups")
MOMENT = ("optimizers", "often", "state", 0, "exp_avg")
WRONG = [
    ((), 1, "the state has no names"),
    ((), {"a": 1}, "the state has other names"),
    (("method",), None, "the state has other names"),
    (("more",), 1, "the state has other names"),
    (("method",), {}, "another layout of the weights"),
    (("method", "often.bias"), torch.zeros(3), "another layout of the weights: often.bias"),
    (("method", "often.bias"), torch.zeros(2, dtype=torch.complex64), "another layout of the weights: often.bias"),
    (("method", "often.bias"), 1.0, "another layout of the weights: often.bias"),
    (("place", "step"), None, "place has other names"),
    (("place", "step"), "1", "place has counts"),
    (("place", "step"), True, "place has counts"),
    (("place", "step"), 10**30, "place has counts"),
    (("place", "before"), -1, "place has counts"),
    (("place", "extended"), 1, "place has counts"),
    (("place", "seconds"), math.nan, "place has times"),
    (("place", "seconds"), 1e300, "place has times"),
    (("place", "durations"), [""], "place has times"),
    (("place", "durations"), 1.0, "place has times"),
    (("place", "phase"), 2, "place is outside"),
    (("place", "step"), 7, "place is outside"),
    (("place", "planned_step"), 6, "place is outside"),
    (("place", "planned_progress"), 2.0, "place is outside"),
    (("averages",), [], "averages has no names"),
    (("averages", "loss"), "0", "averages are not numbers"),
    (("averages", "loss"), math.inf, "averages are not numbers"),
    (("optimizers", "seldom"), None, "optimizers has other names"),
    (("optimizers", "seldom"), {}, "optimizer seldom has other names"),
    (("optimizers", "often", "state"), 1, "optimizer often has other parameters"),
    (("optimizers", "often", "state", 9), {}, "optimizer often has other parameters"),
    (MOMENT, None, "another layout of optimizer often: 0"),
    (MOMENT, torch.zeros(1), "another layout of optimizer often: 0: exp_avg"),
    (GROUP, [], "optimizer often has other groups"),
    ((*GROUP, 0, "lr"), None, "optimizer often has other names"),
    ((*GROUP, 0, "betas"), (0.5, torch.zeros(2)), "another layout of optimizer often: betas: 1"),
    ((*GROUP, 0, "betas"), (0.5, 7.0), "optimizer often has other settings"),
    ((*GROUP, 0, "initial_lr"), "fast", "another layout of optimizer often: initial_lr"),
    ((*GROUP, 0, "params"), [0, 0], "optimizer often has other settings"),
]


@pytest.mark.parametrize(("at", "value", "says"), WRONG)
def test_contents_that_training_never_saves_are_passed_over_or_named(tmp_path, saved, at, value, says):
    states, end = saved
    path, notes = tmp_path / "c", Notes()
    checkpoint.save(path, states[4], {})
    checkpoint.save(path, changed(states[5], at, value), {})
    assert train(path, resume=True, observer=notes) == end
    (said,) = notes.said
    assert said.startswith(f"checkpoint {path} holds no state of this training ({says}")
    assert said.endswith("; training goes on from the one before it")
    checkpoint.remove(path)
    checkpoint.save(path, changed(states[5], at, value), {})
    with pytest.raises(CheckpointError, match="holds no state of this training") as refused:
        train(path, resume=True)
    assert str(refused.value).startswith(f"checkpoint {path} ")
    assert not previous(path).exists()
