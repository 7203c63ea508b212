"""The real command in processes of its own: images that come, change and vanish, alarms, and ends of every kind."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope.cli.score import COLUMNS
from normscope.cli.watch import MEMORY, Watching, alarm_command, raise_alarm
from normscope.cli.watch import run as run_in_process
from normscope.errors import SettingError
from normscope.images.notation import from_printable
from normscope.model import load as load_model
from normscope.rowlog import opened
from normscope.training.interrupt import Stop

PATIENCE = 120
MAIN = "from normscope.cli import main; main()"
# Kills the process, as a power cut would, at the n-th row: before, in the middle of, or after its line is written.
KILLED = """
import os, signal, sys
import normscope.rowlog as rowlog
write, left = rowlog.write, [int(os.environ["ROWS"])]
def killing(file, data):
    left[0] -= 1
    if left[0] < 0:
        file.write(data[: int(os.environ["BYTES"])])
        os.kill(os.getpid(), signal.SIGKILL)
    write(file, data)
rowlog.write = killing
"""


@contextmanager
def watching(model, folder, rows, *options, script="", environment=None):
    """The process, ended with the test, whatever happens in it."""
    command = [sys.executable, "-c", f"{script}\n{MAIN}", "watch", model, folder, "--csv", rows, "--interval", "0.1"]
    with subprocess.Popen(
        list(map(str, [*command, *options])),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | (environment or {}),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process, number=signal.SIGINT):
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def read(path):
    """Whole rows, as another program would read them."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def wait_for(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def names(rows):
    return sorted(from_printable(row["path"]).name for row in rows)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def picture(path, seed=0, shade=None):
    pixels = np.random.default_rng(seed).integers(0, 256, (28, 28), dtype=np.uint8)
    Image.fromarray(pixels if shade is None else np.full_like(pixels, shade)).save(path)
    return path


def test_images_are_scored_as_they_come(model, folder, tmp_path):
    rows = tmp_path / "rows.csv"
    picture(folder / "early.png", 1)
    content = picture(tmp_path / "slow.png", 2).read_bytes()
    with watching(model, folder, rows, "--json") as process:
        wait_for(lambda: names(read(rows)) == ["early.png"])
        for part in range(4):  # a writer that takes its time
            with (folder / "slow.png").open("ab") as file:
                file.write(content[part * len(content) // 4 : (part + 1) * len(content) // 4])
            time.sleep(0.3)
        (folder / "below").mkdir()
        picture(folder / "below" / "new\nline.png", 3)
        (folder / "broken.png").write_bytes(b"\x89PNG no more")
        picture(folder / "gone.png", 4)
        (folder / "gone.png").unlink()
        wait_for(lambda: len(read(rows)) == 4)
        picture(folder / "early.png", 5)  # replaced
        wait_for(lambda: len(read(rows)) == 5)
        time.sleep(0.5)
        code, out, err = ended(process)
    found = read(rows)
    assert code == 130
    assert err.endswith("interrupted\n")
    assert names(found) == ["broken.png", "early.png", "early.png", "new\nline.png", "slow.png"]
    assert [row["score"] == "" for row in found] == [row["path"].endswith("broken.png") for row in found]
    assert len({row["score"] for row in found}) == 5
    assert [json.loads(line)["path"] for line in out.splitlines()] == [row["path"] for row in found]
    assert all(Path(row["path"]).is_absolute() for row in found)


@pytest.mark.slow
def test_nothing_is_scored_twice_or_missed_however_it_ends(model, folder, tmp_path):
    """Killed in the middle of a line, killed after one, ended by SIGTERM, and started once more."""
    rows = tmp_path / "rows.csv"
    for number in range(9):
        picture(folder / f"{number:02}.png", number)
    for written, whole in ((20, 2), (10_000, 6)):  # bytes of the fourth line, the first of all is the header
        with watching(model, folder, rows, script=KILLED, environment={"ROWS": "3", "BYTES": str(written)}) as process:
            assert process.wait(PATIENCE) == -signal.SIGKILL
        assert rows.read_bytes().count(b"\n") == 1 + whole
    with watching(model, folder, rows) as process:
        wait_for(lambda: len(read(rows)) == 9)
        assert ended(process, signal.SIGTERM)[0] == 143
    picture(folder / "09.png", 9)
    with watching(model, folder, rows) as process:
        wait_for(lambda: len(read(rows)) == 10)
        time.sleep(0.5)
        assert ended(process)[0] == 130
    assert names(read(rows)) == [f"{number:02}.png" for number in range(10)]
    assert all(row["score"] for row in read(rows))


def test_an_alarm_is_given_the_path_as_one_word_and_no_shell(model, folder, tmp_path):
    rows, raised = tmp_path / "rows.csv", tmp_path / "raised.txt"
    name = "a b; touch 'x' $(touch y).png"
    picture(folder / name, shade=255)
    script = f"import sys; open({str(raised)!r}, 'a').write(repr(sys.argv[1:])); print('told')"
    with watching(model, folder, rows, "--alarm", f'{sys.executable} -c "{script}" --at={{path}} done') as process:
        wait_for(lambda: len(read(rows)) == 1)
        code, out, err = ended(process)
    assert code == 130
    assert read(rows)[0]["anomalous"] == "True"
    assert raised.read_text() == repr([f"--at={folder / name}", "done"])
    assert "told" in err
    assert "told" not in out
    assert [path.name for path in folder.iterdir()] == [name]


class Enough(Stop):
    """Asks to stop when the file has so many rows."""

    def __init__(self, rows, count):
        self.rows, self.count = rows, count

    @property
    def requested(self):
        return len(read(self.rows)) >= self.count


def test_drift_is_said_once_and_remembered(explaining, folder, tmp_path, capsys):
    rows, fitted = tmp_path / "rows.csv", load_model(explaining)
    columns = 90 + 60 * np.sin(np.arange(64) / 3)
    for number, noise in enumerate(np.random.default_rng(9).normal(0, 12, (60, 48, 64))):
        Image.fromarray(np.clip(columns + noise, 0, 255).astype(np.uint8)).save(folder / f"{number}.png")
    with opened(rows, (*COLUMNS, *MEMORY)) as log:
        run_in_process(Watching(fitted, "m", log, None, True, {}), folder, 0.05, Enough(rows, 60))
    assert capsys.readouterr().err.count("note: normal has moved") == 1
    with opened(rows, (*COLUMNS, *MEMORY)) as log:
        Watching(fitted, "another", log, None, True, {}).follow(log.rows)
        assert capsys.readouterr().err == ""  # scores of another model say nothing of this one
        Watching(fitted, "m", log, None, True, {}).follow(log.rows)
    assert capsys.readouterr().err.count("note: normal has moved") == 1


def test_a_folder_that_goes_away_is_waited_for(model, folder, tmp_path, capsys):
    rows, fitted = tmp_path / "rows.csv", load_model(model)
    folder.rename(tmp_path / "away")
    picture(tmp_path / "away" / "a.png")

    class Back(Enough):
        """The folder comes back after a few looks."""

        looks = 0

        @property
        def requested(self):
            self.looks += 1
            if self.looks == 10:
                (tmp_path / "away").rename(folder)
            return super().requested

    with opened(rows, (*COLUMNS, *MEMORY)) as log:
        run_in_process(Watching(fitted, "m", log, None, False, {}), folder, 0.05, Back(rows, 1))
    assert capsys.readouterr().err.count("does not exist; waiting for it") == 1
    assert names(read(rows)) == ["a.png"]


def test_what_cannot_be_watched(refused, model, folder, tmp_path):
    rows = tmp_path / "rows.csv"
    assert "does not exist" in refused("watch", model, tmp_path / "nowhere", "--csv", rows)
    assert "is a file, not a folder" in refused("watch", model, model, "--csv", rows)
    assert "the rows are the memory of watch" in refused("watch", model, folder, "--csv", "/dev/null")
    rows.write_text("path,verdict\na.png,fine\n")
    assert "has the columns path, verdict" in refused("watch", model, folder, "--csv", rows)
    assert rows.read_text() == "path,verdict\na.png,fine\n"
    assert "'--csv'" in refused("watch", model, folder)
    assert "'--interval'" in refused("watch", model, folder, "--csv", rows, "--interval", "0")
    alarm = ("--csv", tmp_path / "new.csv", "--alarm")
    assert "names no program that can be run" in refused("watch", model, folder, *alarm, "no-such-program {path}")
    assert "names no program" in refused("watch", model, folder, *alarm, " ")
    assert "quotes closed" in refused("watch", model, folder, *alarm, "echo 'a")
    assert not (tmp_path / "new.csv").exists()


def test_a_log_that_was_edited_is_refused(refused, model, folder, tmp_path):
    rows = tmp_path / "rows.csv"
    header = '"path","score","p_value","p_estimate","anomalous","error","size","modified","model","time"\r\n'
    for row in ('1,1,1,"False","",5,1.7E+18', *(f'"{score}",1,1,"False","",5,17' for score in ("nan", "-inf", "x"))):
        rows.write_bytes(f'{header}"a.png",{row},"m","t"\r\n'.encode())
        assert "was changed since watch wrote it" in refused("watch", model, folder, "--csv", rows)


def test_an_alarm_that_fails_is_said(capfd, tmp_path):
    raise_alarm(alarm_command("false {path}"), tmp_path / "a.png")
    assert "a.png ended with 1" in capfd.readouterr().err
    raise_alarm([str(tmp_path / "nowhere")], tmp_path / "a.png")
    assert "did not start (No such file or directory)" in capfd.readouterr().err
    with pytest.raises(SettingError):
        alarm_command("")
    assert alarm_command(None) is None
