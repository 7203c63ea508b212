"""kill -9, failing disks, two processes at once: the old file or the new one, never a part, and no litter."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hostile_values import ODD, leaves, with_value, without_value
from PIL import Image
from small_methods import detector, pictures

from normscope.cli import main
from normscope.errors import CheckpointError, ModelFileError
from normscope.files import previous
from normscope.locks import sole_writer
from normscope.model import load
from normscope.training import checkpoint


@pytest.fixture
def folder(tmp_path):
    write_pictures(tmp_path / "good")
    return tmp_path / "good"


def write_pictures(folder):
    folder.mkdir()
    for number, image in enumerate(pictures(32)):
        Image.fromarray(image).save(folder / f"{number:02}.png")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.soak)])
def test_kill_minus_nine_at_any_moment_loses_nothing(folder, tmp_path, tally, count):
    script = Path(__file__).with_name("kills.py")
    command = [sys.executable, script, str(count), folder, tmp_path / "out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tried"] == count
    assert found["in_a_save"] >= count / 4
    assert found["with_a_checkpoint"] >= count / 4
    more = {name: found[name] for name in ("in_a_save", "with_a_checkpoint")}
    tally("crashes: kill -9 of a fit", count, found["lost"], **more)


class Failing:
    """The file system, of which the n-th call fails; `calls` are the names of all."""

    def __init__(self, patch, number, at) -> None:
        self.number, self.at, self.calls, self.failed = number, at, [], False
        for name in ("fsync", "replace"):
            patch.setattr(os, name, self.guarded(name, getattr(os, name)))
        opened = Path.open
        patch.setattr(Path, "open", lambda path, *mode, **more: self.wrapped(opened(path, *mode, **more), mode))

    def guarded(self, name, real):
        def call(*arguments, **options):
            self.calls.append(name)
            if len(self.calls) == self.at:
                self.failed = True
                raise OSError(self.number, os.strerror(self.number))
            return real(*arguments, **options)

        return call

    def wrapped(self, file, mode):
        return File(file, self) if mode == ("xb",) else file


class File:
    """An open file whose calls may fail; what is written before is in the file."""

    def __init__(self, file, system) -> None:
        self.file, self.fileno = file, file.fileno
        self.write, self.flush = system.guarded("write", file.write), system.guarded("flush", file.flush)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()


def well_told(save, kind, system, path, number):
    """Whether a save ends in an error of this kind, with the path and why, just if a call failed in it."""
    try:
        save()
    except kind as error:
        told = str(error)
        return system.failed and str(path) in told and os.strerror(number) in told and ".tmp" not in told
    except Exception:  # of another kind
        return False
    return not system.failed


def loads(path, steps):
    try:
        return checkpoint.load(path)[0]["step"] in steps
    except CheckpointError:
        return False


def every_failure(monkeypatch, act):
    """`act(number, calls)` for every error at every call, until a run in which none fails; how many runs there were."""
    runs = 0
    for number in (errno.ENOSPC, errno.EIO):
        at = 1
        while True:
            with monkeypatch.context() as patch:
                system = Failing(patch, number, at)
                act(number, system)
            if len(system.calls) < at:
                break
            at, runs = at + 1, runs + 1
    return runs


@pytest.mark.counted
def test_every_call_that_fails_while_a_model_is_saved_leaves_the_old_one_or_the_new(tmp_path, monkeypatch, tally):
    path, lost = tmp_path / "model", []
    old, new = detector("pca").fit(pictures(12)), detector("knn").fit(pictures(12))
    old.save(path)
    before = path.read_bytes()
    new.save(tmp_path / "new")
    after = (tmp_path / "new").read_bytes()
    (tmp_path / "new").unlink()

    def save(number, system):
        path.write_bytes(before)
        lost.append(not well_told(lambda: new.save(path), ModelFileError, system, path, number))
        kept = after if "replace" in system.calls[: system.at - 1] else before
        lost.append(path.read_bytes() != kept or [one.name for one in tmp_path.iterdir()] != ["model"])

    runs = every_failure(monkeypatch, save)
    assert runs >= 2 * 6
    tally("crashes: a write, fsync or rename of a model fails", runs, sum(lost))


@pytest.mark.counted
def test_every_call_that_fails_while_a_checkpoint_is_saved_leaves_one_to_go_on_from(tmp_path, monkeypatch, tally):
    path, lost = tmp_path / "c", []

    def state(step):
        return {"step": step, "weight": torch.full((5,), float(step))}

    def save(number, system):
        at, system.at = system.at, 0
        for step in (1, 2):
            checkpoint.save(path, state(step), {})
        system.calls.clear()
        system.at = at
        lost.append(not well_told(lambda: checkpoint.save(path, state(3), {}), CheckpointError, system, path, number))
        system.at = 0
        lost.append(not loads(path, (2, 3)))
        lost.append(not {one.name for one in tmp_path.iterdir()} <= {"c", "c.previous"})
        checkpoint.remove(path)

    runs = every_failure(monkeypatch, save)
    assert runs >= 2 * 8
    tally("crashes: a write, fsync or rename of a checkpoint fails", runs, sum(lost))


@pytest.fixture
def run(capsys):
    def once(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        return left.value.code or 0, capsys.readouterr().err

    return once


@pytest.mark.counted
@pytest.mark.parametrize("kind", ["csv", "report", "heatmaps"])
def test_every_call_that_fails_while_an_output_is_saved_leaves_the_old_one_or_the_new(
    folder, explaining, tmp_path, monkeypatch, run, tally, kind
):
    """Of `normscope score`: the rows as CSV, the report, and the heat map of an image."""
    out, lost = tmp_path / "out", []
    given = out if kind == "heatmaps" else out / kind
    score = ("score", explaining, folder / "00.png", f"--{kind}", given, "--engine", "eager")
    out.mkdir()
    run(*score)
    (file,) = out.iterdir()

    def save(number, system):
        file.write_bytes(b"old")
        code, said = run(*score)
        told = str(file if kind != "heatmaps" else given) in said and os.strerror(number) in said
        lost.append(system.failed != (code == 2 and told and ".tmp" not in said))
        renamed = "replace" in system.calls[: system.at - 1]
        lost.append((file.read_bytes() != b"old") != renamed)
        lost.append(list(out.iterdir()) != [file])

    runs = every_failure(monkeypatch, save)
    assert runs >= 2 * 4
    tally(f"crashes: a write, fsync or rename of the {kind} of score fails", runs, sum(lost))


def test_a_full_disk_in_the_middle_of_a_fit_is_one_line_that_names_the_file(folder, tmp_path, run, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    options = ("--method", "surprisal", "--set", "width=16", "--epochs", "1")
    code, said = run("fit", folder, "-o", tmp_path / "m", *options)
    assert code == 2
    assert said.splitlines()[-1].startswith(
        f"error: checkpoint {tmp_path / 'm.checkpoint'} cannot be written: No space"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["good"]


def test_the_second_of_two_processes_on_one_model_is_told(folder, tmp_path, run):
    fit = ("fit", folder, "-o", tmp_path / "m", "--method", "knn")
    with sole_writer(tmp_path / "m"):
        code, said = run(*fit)
        assert code == 2
        assert (
            said == f"error: another process is writing {tmp_path / 'm'}; wait until it is done, or give another name\n"
        )
        assert not (tmp_path / "m").exists()
    assert run(*fit)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", "m"]


RACE = "import sys; from normscope.cli import main; sys.stdin.readline(); main(sys.argv[1:])"


@pytest.mark.soak
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_of_two_processes_at_once_one_fits_and_the_other_is_told(folder, tmp_path, tally):
    """Both are let go at once; one may be done before the other begins, and then both fit."""
    rounds, lost, told = 10, 0, 0
    for number in range(rounds):
        model, seeds = tmp_path / f"m{number}", ("1", "2")
        command = [sys.executable, "-c", RACE, "fit", folder, "-o", model, "--method", "pca", "--seed"]
        pair = [subprocess.Popen([*command, seed], **PIPES) for seed in seeds]
        for process in pair:
            process.stdin.write("go\n")
            process.stdin.flush()
        errors = [process.communicate()[1] for process in pair]
        codes = [process.returncode for process in pair]
        refused = [error for code, error in zip(codes, errors, strict=True) if code == 2]
        told += len(refused)
        lost += not (set(codes) <= {0, 2} and 0 in codes)
        lost += not all(f"another process is writing {model};" in error for error in refused)
        lost += not model.exists() or load(model).card["training"]["seed"] not in (1, 2)
        lost += sorted(path.name for path in tmp_path.glob("*m*")) != sorted(f"m{one}" for one in range(number + 1))
    assert told >= rounds / 2
    tally("crashes: two fits to one file at once, the second told", rounds, lost, told=told)


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}


OPTIONS = ["--method", "vae", "--set", "width=4", "--set", "batch_size=8", "--epochs", "2", "--allow-collapse"]


class Stopped(NamedTuple):
    """A folder of images, what a fit to it writes, and the two checkpoints of one that was killed after five."""

    folder: Path
    whole: bytes
    newest: bytes
    previous: bytes


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    place = tmp_path_factory.mktemp("stopped")
    write_pictures(place / "good")
    fit = ["fit", str(place / "good"), "-o"]
    with pytest.raises(SystemExit):
        main([*fit, str(place / "whole"), *OPTIONS])
    command = [sys.executable, Path(__file__).with_name("stopped.py"), "5", *fit, place / "m", *OPTIONS]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    assert subprocess.run(command, **silent).returncode == -signal.SIGKILL
    newest = place / "m.checkpoint"
    contents = (path.read_bytes() for path in (place / "whole", newest, previous(newest)))
    return Stopped(place / "good", *contents)


@pytest.mark.parametrize("count", [1, pytest.param(20, marks=pytest.mark.soak)])
def test_a_fit_goes_on_from_the_checkpoint_before_a_damaged_one_and_says_so(stopped, tmp_path, run, tally, count):
    """Interrupted after some steps, its newest checkpoint damaged, resumed: to the same bits as without."""
    model, newest, dice, lost = tmp_path / "m", tmp_path / "m.checkpoint", random.Random(count), 0
    for _ in range(count):
        newest.write_bytes(damaged(stopped.newest, dice))
        previous(newest).write_bytes(stopped.previous)
        code, said = run("fit", stopped.folder, "-o", model, *OPTIONS, "--resume")
        lost += code != 0 or f"checkpoint {newest} " not in said or "goes on from the one before it" not in said
        lost += not model.exists() or model.read_bytes() != stopped.whole
        lost += sorted(path.name for path in tmp_path.iterdir()) != ["m"]
        model.unlink(missing_ok=True)
    tally("crashes: newest checkpoint damaged, gone on from the one before it to the same bits", count, lost)


@pytest.mark.parametrize("count", [6, pytest.param(300, marks=pytest.mark.soak)])
def test_a_checkpoint_resealed_with_other_contents_is_passed_over_refused_or_harmless(
    stopped, tmp_path, run, tally, count
):
    """One value of its state replaced or missing, and its checksum right: half of the time there is one before it."""
    model, newest, dice, found = tmp_path / "m", tmp_path / "m.checkpoint", random.Random(count), []
    newest.write_bytes(stopped.newest)
    state, facts = checkpoint.read(newest)
    for number in range(count):
        checkpoint.remove(newest)
        checkpoint.save(newest, hostile_state(state, dice), facts)
        if number % 2:
            previous(newest).write_bytes(stopped.previous)
        try:
            code, said = run("fit", stopped.folder, "-o", model, *OPTIONS, "--resume")
            same = model.exists() and model.read_bytes() == stopped.whole
            found.append(resumed(code, said, newest, same, number % 2))
        except BaseException as error:  # whatever it is, it is counted
            found.append(f"{type(error).__name__}: {error}")
        model.unlink(missing_ok=True)
    kinds = ("passed over", "refused", "harmless")
    lost = [one for one in found if one not in kinds]
    print(*lost, sep="\n")
    more = {kind.replace(" ", "_"): found.count(kind) for kind in kinds}
    tally("crashes: a checkpoint resealed with other contents", count, len(lost), **more)
    assert min(more["passed_over"], more["refused"]) > count / 10


def hostile_state(state, dice):
    part = dice.choice(sorted(state))
    at = dice.choice([at for at in leaves(state) if at and at[0] == part])
    if dice.random() < 0.2:
        return without_value(state, at)
    return with_value(state, at, dice.choice([*ODD, torch.zeros(0), torch.full((4,), 1j)]))


def resumed(code, said, newest, same, previous_is_there):
    """How a fit went on from a hostile checkpoint; whatever is no good end is told as it is."""
    line = f"checkpoint {newest} "
    if code == 0 and line in said:
        well = same and previous_is_there and "goes on from the one before it" in said
        return "passed over" if well else said
    if code == 0:
        return "harmless"
    errors = said.splitlines()
    if code == 2 and errors[-1].startswith(f"error: {line}") and not previous_is_there:
        return "refused"
    ours = errors[-1].startswith("error: ") and "this should not happen" not in said
    return "harmless" if code == 2 and ours else said


def damaged(data, dice):
    """A bit flipped, the end cut off, or nothing left."""
    kind, place = dice.randrange(3), dice.randrange(len(data))
    return [data[:place], b"", data[:place] + bytes([data[place] ^ 1 << dice.randrange(8)]) + data[place + 1 :]][kind]


def test_what_a_killed_fit_left_of_a_model_is_removed_by_the_next(folder, tmp_path, run):
    (tmp_path / f".m.{'0' * 16}.tmp").write_bytes(b"half a model")
    assert run("fit", folder, "-o", tmp_path / "m", "--method", "knn")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", "m"]
    assert np.isfinite([row["score"] for row in load(tmp_path / "m").rows(sorted(folder.iterdir()))]).all()


def test_a_damaged_checkpoint_gives_way_to_the_one_before_it_and_that_is_said(tmp_path):
    path, said = tmp_path / "c", []
    for step in (1, 2):
        checkpoint.save(path, {"step": step}, {})
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert checkpoint.load(path, say=said.append)[0] == {"step": 1}
    assert said == [f"checkpoint {path} has a damaged header; training goes on from the one before it"]
    previous(path).unlink()
    with pytest.raises(CheckpointError, match="has a damaged header; start anew"):
        checkpoint.load(path, say=said.append)
    assert len(said) == 1
