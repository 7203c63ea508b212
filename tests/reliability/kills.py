"""A program that fits, is killed (kill -9), goes on, and is killed again; then says what was lost.

One process imports everything and forks a child for each attempt, which takes seconds less than to start anew. Half of
the children are killed at a random moment; the others kill themselves right before or after a random call of a save to
the file system. Every step is saved, so that many of the random moments lie in a save, too.
"""

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from normscope import artifact
from normscope.cli import main
from normscope.errors import CheckpointError
from normscope.files import leftovers
from normscope.training import checkpoint, loop

CALLS = ("fsync", "replace", "link", "unlink", "chmod")
SMALL = ["--method", "vae", "--set", "width=4", "--set", "code=4", "--set", "batch_size=8"]
OPTIONS = [*SMALL, "--epochs", "6", "--resume", "--allow-collapse"]


def fit(folder: Path, model: Path) -> int:
    """The exit code."""
    try:
        main(["fit", str(folder), "-o", str(model), *OPTIONS])
    except SystemExit as left:
        return int(left.code or 0)
    return 0


def fit_silently(folder: Path, model: Path) -> None:
    """In the child, which never returns."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        os._exit(fit(folder, model))
    finally:
        os._exit(70)


def die_in_a_save(number: int, late: bool) -> None:
    """At the n-th call to the file system from now on, before or after it."""
    left = [number]

    def guarded(real: Callable) -> Callable:
        def call(*arguments: object, **options: object) -> object:
            left[0] -= 1
            if left[0] == 0 and not late:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*arguments, **options)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    for name in CALLS:
        setattr(os, name, guarded(getattr(os, name)))


def attempt(folder: Path, model: Path, call: tuple[int, bool] | None, seconds: float | None) -> int:
    """How the child ended; it dies by its own hand at that call, or is killed after so many seconds."""
    child = os.fork()
    if child == 0:
        if call:
            die_in_a_save(*call)
        fit_silently(folder, model)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def bits(model: Path) -> dict[str, bytes]:
    return {name: bytes(tensor.reshape(-1).numpy().data) for name, tensor in artifact.load(model)[0].items()}


def steps(path: Path) -> int:
    """How far the checkpoint is that the next attempt goes on from: 0 if there is none, −1 if the newest is damaged."""
    if not checkpoint.exists(path):
        return 0
    said: list[str] = []
    try:
        state, _ = checkpoint.load(path, say=said.append)
    except CheckpointError:
        return -1
    return -1 if said else int(state["place"]["before"] + state["place"]["step"])


def run(count: int, folder: Path, out: Path) -> dict[str, int]:
    out.mkdir()
    model, dice, tried, in_a_save, lost = out / "model", random.Random(count), 0, 0, 0
    newest, reached, resumed = out / "model.checkpoint", 0, 0
    loop.Run.save_if_due = loop.Run.save
    with contextlib.redirect_stdout(sys.stderr):
        assert fit(folder, model) == 0  # in this process, which then has imported everything
    expected, before, began = bits(model), model.read_bytes(), time.perf_counter()
    assert attempt(folder, model, None, None) == 0
    usual = time.perf_counter() - began
    assert model.read_bytes() == before
    while tried < count:
        chosen = tried % 2 == 0
        call, seconds = (dice.randrange(1, 120), dice.random() < 0.5), dice.random() * usual
        code = attempt(folder, model, call if chosen else None, None if chosen else seconds)
        lost += code not in (0, -signal.SIGKILL)
        in_a_save += code != 0 and (chosen or bool(leftovers(model) or leftovers(out / "model.checkpoint")))
        tried += code != 0
        lost += (
            not model.exists() or model.read_bytes() != before
        )  # the model of one seed has one content, so it must not change at all
        now = steps(newest)
        lost += now < 0 or 0 < now < reached  # steps that were safe; none at all after a fit that came to its end
        reached, resumed = now, resumed + (code != 0 and now > 0)
    assert attempt(folder, model, None, None) == 0
    lost += bits(model) != expected
    lost += [path.name for path in out.iterdir()] != ["model"]
    return {"tried": tried, "in_a_save": in_a_save, "with_a_checkpoint": resumed, "lost": lost}


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))))
