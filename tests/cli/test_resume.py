"""The real command line in processes of its own: killed, interrupted, gone on from, and compared bit by bit."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from normscope import artifact
from normscope.datasets import digits
from normscope.files import previous
from normscope.training import checkpoint

NORMSCOPE = Path(sys.executable).with_name("normscope")
SETTINGS = ("--method", "surprisal", "--set", "width=16", "--set", "batch_size=8")
EPOCHS, MANY_EPOCHS = 34, 250  # a fifth of a second each on a slow core, to checkpoints at least a second apart
PATIENCE = 240


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sixty threes."""
    folder = tmp_path_factory.mktemp("good")
    data = digits.load()
    for number, image in enumerate(data.train_images[data.train_labels == 3][:60]):
        Image.fromarray(np.asarray(image)).save(folder / f"{number:02}.png")
    return folder


def start(folder, model, *options, epochs=EPOCHS):
    """One thread each: sums in another order have other last bits."""
    command = [str(NORMSCOPE), "fit", str(folder), "-o", str(model), *SETTINGS, "--epochs", str(epochs), *options]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(process):
    """Exit code and standard error."""
    _, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, errors


def bits(model):
    tensors, _, _ = artifact.load(model)
    return {name: tensor.contiguous().reshape(-1).view(torch.uint8).tolist() for name, tensor in tensors.items()}


def checkpoint_of(model):
    return model.with_name(model.name + ".checkpoint")


def uninterrupted(folder, model, epochs):
    code, errors = finish(start(folder, model, epochs=epochs))
    assert code == 0, errors
    return bits(model)


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory):
    """The tensors of a run that never stopped."""
    return uninterrupted(folder, tmp_path_factory.mktemp("whole") / "model", EPOCHS)


def wait_until(process, happened):
    """Until it has happened or the process has ended."""
    patience = time.monotonic() + PATIENCE
    while process.poll() is None and not happened():
        assert time.monotonic() < patience
        time.sleep(0.0005)


def age(path):
    return path.stat().st_mtime_ns if path.exists() else None


def temporary(path):
    return set(path.parent.glob(".*.tmp"))


def wait_for(moment, process, path, delay):
    """`starting`: somewhere in start-up; `saved`: somewhere after a save; `saving`: with the new file half in place."""
    before = age(path)
    if moment == "starting":
        time.sleep(6 * delay)
    else:
        left = temporary(path)
        wait_until(
            process,
            lambda: age(path) != before or (moment == "saving" and temporary(path) - left),
        )
        time.sleep(delay if moment == "saved" else delay / 100)


def kill_and_resume(folder, model, moments, epochs):
    """Ends a run at each of these moments, each time going on from where it was; how many kills met it alive."""
    dice, kills = random.Random(0), 0
    for moment in moments:
        process = start(folder, model, "--resume", epochs=epochs)
        wait_for(moment, process, checkpoint_of(model), dice.random())
        process.kill()
        code, errors = finish(process)
        assert code in (0, -signal.SIGKILL), errors
        kills += code == -signal.SIGKILL
    code, errors = finish(start(folder, model, "--resume", epochs=epochs))
    assert code == 0, errors
    return kills


@pytest.mark.slow
def test_two_kills_do_not_change_a_bit(folder, whole, tmp_path):
    model = tmp_path / "model"
    kills = kill_and_resume(folder, model, ["saved", "saving"], EPOCHS)
    assert kills >= 1  # a fast machine may be done before the second
    assert bits(model) == whole
    assert not checkpoint.exists(checkpoint_of(model))


@pytest.mark.slow
def test_twenty_kills_do_not_change_a_bit(folder, tmp_path):
    model, expected = tmp_path / "model", uninterrupted(folder, tmp_path / "whole", MANY_EPOCHS)
    moments = ["saved", "saving", "starting", "saving", "saved"] * 4
    assert kill_and_resume(folder, model, moments, MANY_EPOCHS) >= 15
    assert bits(model) == expected
    assert not checkpoint.exists(checkpoint_of(model))


@pytest.fixture(scope="module")
def interrupted(folder, tmp_path_factory):
    """The folder of a run that Ctrl-C ended past its middle, with two checkpoints in it."""
    model = tmp_path_factory.mktemp("interrupted") / "model"
    path = checkpoint_of(model)

    def past_the_middle():
        if not previous(path).exists():
            return False
        place = checkpoint.load(path)[0]["place"]
        return place["step"] > place["steps"] / 2

    process = start(folder, model)
    wait_until(process, past_the_middle)
    process.send_signal(signal.SIGINT)
    code, errors = finish(process)
    return model.parent, code, errors


@pytest.fixture
def continued(interrupted, tmp_path):
    """A copy of that folder, to go on from; the model to be."""
    shutil.copytree(interrupted[0], tmp_path, dirs_exist_ok=True)
    return tmp_path / "model"


@pytest.mark.slow
def test_an_interrupt_saves_says_so_and_exits_with_130(interrupted):
    where, code, errors = interrupted
    assert code == 130
    assert "the same command with --resume goes on from it" in errors
    assert "Traceback" not in errors
    assert sorted(path.name for path in where.iterdir()) == ["model.checkpoint", "model.checkpoint.previous"]


@pytest.mark.slow
def test_an_interrupted_run_is_finished_to_the_same_bits(folder, whole, continued):
    code, errors = finish(start(folder, continued, "--resume"))
    assert code == 0, errors
    assert bits(continued) == whole
    assert [path.name for path in continued.parent.iterdir()] == ["model"]


@pytest.mark.slow
def test_a_damaged_checkpoint_gives_way_to_the_one_before_it(folder, whole, continued):
    path = checkpoint_of(continued)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    code, errors = finish(start(folder, continued, "--resume"))
    assert code == 0, errors
    assert f"note: checkpoint {path} was changed or damaged after it was saved; training goes on from the one" in errors
    assert bits(continued) == whole
    assert [path.name for path in continued.parent.iterdir()] == ["model"]


@pytest.mark.slow
def test_the_checkpoint_of_another_seed_is_refused_in_one_line_and_kept(folder, continued):
    before = checkpoint_of(continued).read_bytes()
    code, errors = finish(start(folder, continued, "--resume", "--seed", "1"))
    assert code == 2
    assert len(errors.splitlines()) == 1
    assert "is of another run (seed 0, now 1); delete it or start anew" in errors
    assert checkpoint_of(continued).read_bytes() == before
    assert not continued.exists()
