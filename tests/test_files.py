import os
import subprocess
import sys

import pytest

from normscope import files
from normscope.files import previous, write_atomically

STAGES = ("fsync", "replace", "link")


class StoppedError(Exception):
    pass


def stop_at(monkeypatch, stage):
    """Let the call number `stage` to the file system fail; returns the list of calls made."""
    calls = []

    def guarded(name, real):
        def call(*args, **kwargs):
            calls.append(name)
            if len(calls) == stage:
                raise StoppedError
            return real(*args, **kwargs)

        return call

    for name in STAGES:
        monkeypatch.setattr(os, name, guarded(name, getattr(os, name)))
    return calls


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_writes_bytes_or_what_a_writer_writes(tmp_path):
    write_atomically(tmp_path / "a", b"one")
    write_atomically(tmp_path / "b", lambda file: file.write(b"two"))
    assert contents(tmp_path) == {"a": b"one", "b": b"two"}


def test_permissions_are_those_of_an_ordinary_new_file(tmp_path):
    write_atomically(tmp_path / "a", b"")
    (tmp_path / "b").write_bytes(b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_previous_is_kept_only_when_asked(tmp_path):
    path = tmp_path / "a"
    for data in [b"1", b"2", b"3"]:
        write_atomically(path, data, keep_previous=True)
    assert contents(tmp_path) == {"a": b"3", "a.previous": b"2"}
    write_atomically(path, b"4")
    assert contents(tmp_path) == {"a": b"4", "a.previous": b"2"}


@pytest.mark.parametrize("keep", [False, True])
def test_a_failure_at_any_stage_leaves_the_old_or_the_new_file_and_no_litter(tmp_path, monkeypatch, keep):
    stages = 0
    while True:
        folder = tmp_path / str(stages)
        folder.mkdir()
        path = folder / "a"
        path.write_bytes(b"old")
        stages += 1
        with monkeypatch.context() as patch:
            calls = stop_at(patch, stages)
            try:
                write_atomically(path, b"new", keep_previous=keep)
            except StoppedError:
                pass
            else:
                break
        assert path.read_bytes() == (b"new" if "replace" in calls[:-1] else b"old")
        assert set(contents(folder)) <= {"a", "a.previous"}
    assert calls == (
        ["fsync", "link", "replace", "fsync", "replace", "fsync"] if keep else ["fsync", "replace", "fsync"]
    )


def test_a_failing_writer_leaves_the_old_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def writer(file):
        file.write(b"ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, writer, keep_previous=True)
    assert contents(tmp_path) == {"a": b"old"}


KILLED = """
import os, runpy, sys
from pathlib import Path
stage, calls = int(sys.argv[3]), []
def guarded(real):
    def call(*args, **kwargs):
        calls.append(1)
        if len(calls) == stage:
            os._exit(9)
        return real(*args, **kwargs)
    return call
for name in ["fsync", "replace", "link"]:
    setattr(os, name, guarded(getattr(os, name)))
write = runpy.run_path(sys.argv[1])["write_atomically"]
write(Path(sys.argv[2]), b"new", keep_previous=True)
"""


def test_a_kill_at_any_stage_leaves_an_intact_file_even_when_the_newest_was_damaged(tmp_path):
    for stage in range(1, 8):
        path = tmp_path / str(stage)
        path.write_bytes(b"damaged")
        previous(path).write_bytes(b"good")
        command = [sys.executable, "-S", "-c", KILLED, files.__file__, str(path), str(stage)]
        code = subprocess.run(command, check=False).returncode
        assert path.read_bytes() == b"new" or previous(path).read_bytes() == b"good"
        assert code == (9 if stage < 7 else 0)
    assert path.read_bytes() == b"new"


def test_after_a_kill_that_left_both_names_on_one_file_nothing_is_left_over(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    previous(path).hardlink_to(path)
    write_atomically(path, b"new", keep_previous=True)
    assert contents(tmp_path) == {"a": b"new", "a.previous": b"old"}


def test_without_hard_links_one_of_the_two_files_is_always_there(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    for stage in range(1, 6):
        path = tmp_path / str(stage)
        path.write_bytes(b"old")
        with monkeypatch.context() as patch:
            calls = stop_at(patch, stage + 1)
            patch.setattr(os, "link", refuse)
            try:
                write_atomically(path, b"new", keep_previous=True)
            except StoppedError:
                assert calls
        assert b"old" in [file.read_bytes() for file in (path, previous(path)) if file.exists()]
        assert not list(tmp_path.glob(".*"))
    assert (path.read_bytes(), previous(path).read_bytes()) == (b"new", b"old")


def test_a_folder_at_the_path_is_left_alone(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    with pytest.raises(OSError):
        write_atomically(path, b"new", keep_previous=True)
    assert list(tmp_path.iterdir()) == [path]
