import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from normscope import files
from normscope.files import previous, write_atomically, write_text

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


def test_permissions_and_owner_of_the_file_that_was_there_are_kept(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o640)
    owner = (1234, 4321) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    os.chown(path, *owner)
    write_atomically(path, b"new", keep_previous=True)
    for kept in (path, previous(path)):
        state = kept.stat()
        assert (stat.S_IMODE(state.st_mode), state.st_uid, state.st_gid) == (0o640, *owner)


def test_nobody_else_can_read_a_private_file_while_it_is_written(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o600)
    modes = []
    write_atomically(path, lambda file: modes.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode)))
    assert modes == [0o600]


def test_a_disk_without_permissions_or_owners_is_written_to_all_the_same(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    path = tmp_path / "a"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "chown", refuse)
    monkeypatch.setattr(os, "chmod", refuse)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("write", [lambda path: write_atomically(path, b"new"), lambda path: write_text(path, "new")])
def test_links_stay_and_what_they_lead_to_is_replaced(tmp_path, write):
    (tmp_path / "far").mkdir()
    for name in ("there", "not yet there"):
        target, middle, link = tmp_path / "far" / name, tmp_path / f"middle {name}", tmp_path / f"link {name}"
        if name == "there":
            target.write_bytes(b"old")
        middle.symlink_to(target)
        link.symlink_to(middle.name)
        write(link)
        assert (link.readlink(), middle.readlink()) == (Path(middle.name), target)
        assert target.read_bytes() == b"new"
    assert sorted(contents(tmp_path / "far")) == ["not yet there", "there"]


def test_a_link_to_itself_is_left_alone(tmp_path):
    path = tmp_path / "a"
    path.symlink_to(path)
    for write in (lambda: write_atomically(path, b"new"), lambda: write_text(path, "new")):
        with pytest.raises(OSError) as error:
            write()
        assert (error.value.errno, error.value.filename) == (errno.ELOOP, str(path))
    assert path.is_symlink()


@pytest.fixture
def device(tmp_path):
    """Makes devices such as /dev/null in our own folder, where they may be destroyed."""

    def make(name, major, minor, kind=stat.S_IFCHR):
        path = tmp_path / name
        try:
            os.mknod(path, 0o666 | kind, os.makedev(major, minor))
            if kind == stat.S_IFCHR:
                path.open("rb").close()
        except OSError as error:
            pytest.skip(f"only root makes devices, and not on every disk ({error})")
        return path

    return make


def test_a_device_is_never_replaced(tmp_path, device):
    null, link = device("null", 1, 3), tmp_path / "link"
    link.symlink_to(null)
    with pytest.raises(OSError, match="Not a regular file") as error:
        write_atomically(null, b"new", keep_previous=True)
    assert error.value.filename == str(null)
    for path in (null, link):
        write_text(path, "rows")
        assert stat.S_ISCHR(null.lstat().st_mode)
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "null"]


def test_a_device_that_is_no_stream_is_left_alone(device):
    path = device("disk", 240, 200, stat.S_IFBLK)
    for write in (lambda: write_atomically(path, b"new"), lambda: write_text(path, "new")):
        with pytest.raises(OSError, match="Not a regular file"):
            write()
    assert stat.S_ISBLK(path.lstat().st_mode)


def test_text_goes_into_a_fifo_and_the_fifo_stays(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(OSError, match="Not a regular file"):
        write_atomically(path, b"new")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_text(path, "rows, ü\r\n")
    assert os.read(reader, 100) == "rows, ü\r\n".encode()
    os.close(reader)
    assert path.is_fifo()


TO_STDOUT = """
import runpy, sys
from pathlib import Path
write = runpy.run_path(sys.argv[1])["write_text"]
for path in sys.argv[2:]:
    write(Path(path), path + "\\n")
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="where open descriptors are files")
def test_text_goes_to_standard_output_wherever_that_leads(tmp_path):
    """By links of our own: were /dev/stdout replaced, root would have lost it."""
    link = tmp_path / "stdout"
    link.symlink_to("/proc/self/fd/1")
    command = [sys.executable, "-S", "-c", TO_STDOUT, files.__file__, str(link), "/dev/fd/1"]
    written = f"{link}\n/dev/fd/1\n".encode()
    assert subprocess.run(command, check=True, capture_output=True).stdout == written
    log = tmp_path / "log"
    log.write_bytes(b"before\n")
    with log.open("ab") as file:
        subprocess.run(command, check=True, stdout=file)
    assert log.read_bytes() == b"before\n" + written
    assert link.is_symlink()


def test_text_is_written_whole_as_it_is(tmp_path):
    write_text(tmp_path / "a", "ü\r\n\n")
    assert contents(tmp_path) == {"a": "ü\r\n\n".encode()}


def failing(number):
    def fail(file):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_an_error_of_the_disk_names_the_file_and_keeps_the_old_one(tmp_path, number):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(OSError) as error:
        write_atomically(path, failing(number))
    assert (error.value.errno, error.value.filename) == (number, str(path))
    assert contents(tmp_path) == {"a": b"old"}


def test_where_there_is_no_folder_the_file_is_named_and_not_a_temporary_one(tmp_path):
    for path in (tmp_path / "none" / "a", tmp_path / "file" / "a"):
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(OSError) as error:
            write_text(path, "text")
        assert error.value.filename == str(path)


def test_a_full_device_is_named(device):
    path = device("full", 1, 7)
    with pytest.raises(OSError) as error:
        write_text(path, "text")
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(path))


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
