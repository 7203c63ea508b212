"""kill -9, failing disks, two processes at once: the old file or the new one, never a part, and no litter."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
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
    (tmp_path / "good").mkdir()
    for number, image in enumerate(pictures(32)):
        Image.fromarray(image).save(tmp_path / "good" / f"{number:02}.png")
    return tmp_path / "good"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.soak)])
def test_kill_minus_nine_at_any_moment_loses_nothing(folder, tmp_path, tally, count):
    script = Path(__file__).with_name("kills.py")
    command = [sys.executable, script, str(count), folder, tmp_path / "out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tried"] == count
    assert found["in_a_save"] >= count / 4
    tally("crashes: kill -9 of a fit", count, found["lost"], in_a_save=found["in_a_save"])


class Failing:
    """The file system, of which the n-th call fails; `calls` are the names of all."""

    def __init__(self, patch, number, at) -> None:
        self.number, self.at, self.calls = number, at, []
        for name in ("fsync", "replace"):
            patch.setattr(os, name, self.guarded(name, getattr(os, name)))
        opened = Path.open
        patch.setattr(Path, "open", lambda path, *mode, **more: self.wrapped(opened(path, *mode, **more), mode))

    def guarded(self, name, real):
        def call(*arguments, **options):
            self.calls.append(name)
            if len(self.calls) == self.at:
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
        try:
            new.save(path)
        except ModelFileError as error:
            lost.append(
                not (str(path) in str(error) and os.strerror(number) in str(error) and ".tmp" not in str(error))
            )
        kept = after if "replace" in system.calls[: system.at - 1] else before
        lost.append(path.read_bytes() != kept or [one.name for one in tmp_path.iterdir()] != ["model"])

    runs = every_failure(monkeypatch, save)
    assert runs >= 2 * 6
    tally("crashes: a write, fsync or rename of a model fails", runs, sum(lost))


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
        try:
            checkpoint.save(path, state(3), {})
        except CheckpointError as error:
            lost.append(not (str(path) in str(error) and os.strerror(number) in str(error)))
        system.at = 0
        lost.append(checkpoint.load(path)[0]["step"] not in (2, 3))
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
