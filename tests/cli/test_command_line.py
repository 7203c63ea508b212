"""What holds for every verb: help, one-line errors, exit codes, and a standard output with the result alone."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from normscope import __version__
from normscope.cli import SPINS, app, ending, progress
from normscope.training.observer import Progress

VERBS = [verb.callback.__name__ for verb in app.registered_commands]
MAIN = "from normscope.cli import main; main()"


def command(*arguments: object, script: str = "") -> list[str]:
    return [sys.executable, "-c", f"{script}\n{MAIN}", *map(str, arguments)]


def spawn(*arguments: object, script: str = "", **options: object) -> subprocess.CompletedProcess:
    return subprocess.run(command(*arguments, script=script), capture_output=True, timeout=120, **options)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_json_and_debug(run, verb):
    code, out, err = run(verb, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: normscope {verb} ")
    for option in ("--json", "--debug", "--help"):
        assert option in out


def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "normscope", "--version"], capture_output=True, timeout=120)
    assert (done.returncode, done.stdout.decode().strip()) == (0, __version__)
    assert subprocess.run([sys.executable, "-m", "normscope", "nonsense"], capture_output=True).returncode == 2


def test_help_lists_every_verb(run):
    out = run("--help").out
    assert {"demo", "fit", "score", "doctor", "info", "methods", "bench"} <= set(VERBS)
    assert all(re.search(rf"^  {verb} ", out, re.M) for verb in VERBS)


def test_no_argument_shows_the_help_and_is_wrong_use(run):
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: normscope ")


def test_version(run):
    assert run("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("given", "spins"), [({}, SPINS), ({"OMP_WAIT_POLICY": "ACTIVE"}, None), ({"GOMP_SPINCOUNT": "7"}, "7")]
)
def test_threads_that_wait_soon_leave_the_cores_to_others_unless_told_otherwise(run, monkeypatch, given, spins):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(name, "")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    run("--version")
    assert os.environ.get("GOMP_SPINCOUNT") == spins


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no such command 'nothing'"),
        (["scor"], "'score', 'doctor'? `normscope --help`"),
        (["fit"], "missing argument"),
        (["recalibrate", "model", "verdicts.csv"], "'--output' / '-o'; `normscope recalibrate --help`"),
        (["fit", "folder", "-o", "m", "--sed", "1"], "--sed"),
        (["fit", "folder", "-o", "m", "--seed", "one"], "'--seed'"),
        (["fit", "folder", "-o", "m", "--seed", "-1"], "'--seed'"),
        (["fit", "folder", "-o", "m", "--epochs", "1.5"], "'--epochs'"),
        (["fit", "folder", "-o", "m", "extra"], "extra"),
        (["score", "model"], "missing argument"),
        (["bench", "digits", "--methods", "knn", "--out", "x", "--seeds", "0"], "'--seeds'"),
        (["bench", "digits", "--methods", "knn", "--out", "x", "--jobs", "0"], "'--jobs'"),
        (["--nothing"], "--nothing"),
    ],
)
def test_wrong_arguments_are_one_line(refused, arguments, message):
    line = refused(*arguments)
    assert message in line
    assert "--help" in line


def test_debug_shows_the_traceback_before_the_line(run):
    code, out, err = run("doctor", "nowhere", "--debug")
    assert (code, out) == (2, "")
    assert err.startswith("Traceback (most recent call last)")
    assert err.splitlines()[-1].startswith("error: nowhere does not exist")


def test_a_fault_of_ours_is_one_line_too(run, monkeypatch, good, tmp_path):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("division by\nzero")

    monkeypatch.setattr("normscope.fitting.fit", broken)
    code, out, err = run("fit", good, "-o", tmp_path / "m", "--method", "knn")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("error: ZeroDivisionError: division by zero; this should not happen: --debug shows where")


def test_an_error_of_the_system_names_the_file(run, monkeypatch, tmp_path):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device", str(tmp_path / "m"))

    monkeypatch.setattr("normscope.fitting.fit", full)
    assert run("fit", tmp_path, "-o", tmp_path / "m").err == f"error: {tmp_path / 'm'}: No space left on device\n"


def test_interrupted_is_130(run, monkeypatch, good, tmp_path):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("normscope.fitting.fit", interrupted)
    assert run("fit", good, "-o", tmp_path / "m", "--method", "knn") == (130, "", "interrupted\n")
    assert not list(tmp_path.iterdir())


def test_help_answers_at_once():
    slow = "{'torch', 'numpy', 'rich', 'PIL', 'sklearn'} & set(sys.modules)"  # torch alone takes seconds
    done = spawn("fit", "--help", script=f"import atexit, sys; atexit.register(lambda: print({slow}))")
    assert done.returncode == 0
    assert done.stdout.decode().splitlines()[-1] == "set()"


def test_json_alone_is_on_standard_output(good, tmp_path):
    done = spawn("fit", good, "-o", tmp_path / "m", "--method", "knn", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["images"] == 20
    assert b"calibration images" in done.stderr


def test_an_error_of_a_real_process():
    done = spawn("doctor", "nowhere")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"error: nowhere does not exist; check the spelling of the folder\n"


@pytest.mark.skipif(os.name == "nt", reason="pipes end otherwise there")
@pytest.mark.parametrize("arguments", [pytest.param(["methods"], marks=pytest.mark.slow), ["score", "MODEL", "GOOD"]])
def test_a_reader_who_leaves_is_no_error(arguments, good, model):
    known = {"MODEL": str(model), "GOOD": str(good)}
    real = [known.get(one, one) for one in arguments]
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(command(*real), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered)
    process.stdout.close()  # as `| head -1` does, once it has its line
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == ending.READER_GONE
    assert "Error" not in said
    assert "Exception" not in said
    assert "Traceback" not in said


@pytest.mark.skipif(os.name == "nt", reason="names are no bytes there")
def test_any_name_can_be_printed(run, good, model, tmp_path, images):
    folder = tmp_path / "two words\nand lines é"
    images(folder, 1)
    (folder / "000.png").rename(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.png"))
    done = spawn("score", model, folder, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(b"two words\\nand lines \\xe9/\\udcff\\udcfe.png\n")
    assert json.loads(run("score", model, folder, "--json").out)[0]["path"].endswith("lines é/\\udcff\\udcfe.png")
    strange = tmp_path / os.fsdecode(b"m\n\xff")
    for options in ([], ["--json"]):
        code, out, _ = run("fit", good, "-o", strange, "--method", "knn", *options)
        assert code == 0
    assert json.loads(out)["model"] == str(strange)
    assert strange.exists()


SWALLOWS = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "normscope.artifact":
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                pass

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_control_c_is_not_lost_in_an_import(good, tmp_path):
    """Python discards an interrupt that comes while it runs, e.g. the callback of a weak reference."""
    done = spawn("fit", good, "-o", tmp_path / "m", "--method", "knn", script=SWALLOWS)
    assert done.returncode == 130
    assert done.stderr.decode().splitlines()[-1] == "interrupted"
    assert not (tmp_path / "m").exists()


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_control_c_while_starting_up(good, tmp_path):
    there = "import normscope.cli; print('there', flush=True)"
    process = subprocess.Popen(
        command("fit", good, "-o", tmp_path / "m", script=there), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"there\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130
    assert said in ("", "interrupted\n")  # nothing if the arguments were still being parsed
    assert not (tmp_path / "m").exists()


class Terminal:
    """Standard error, looked at by somebody."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True


def test_bars_fit_into_80_columns(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    record = {"loss": 4.5678, **{f"another {number}": 1.0 for number in range(9)}}
    with progress.bars() as observer:
        observer.parts("calibrating", 1, 5)
        observer.images("reading", 3, 60)
        observer.step(Progress("train", 12, 3200, 0, 2.0, record))
    lines = [re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line) for line in re.split("[\r\n]", terminal.text)]
    assert any(line.startswith("reading ") and "3/60" in line for line in lines)
    assert any(line.startswith("calibrating ") and "1/5" in line for line in lines)
    assert any(line.startswith("train ") and "12/3200" in line and "6.0 steps/s  loss 4.57" in line for line in lines)
    assert "…" not in terminal.text


def test_a_bar_that_begins_anew_forgets_how_fast_it_was(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.bars() as observer:
        for done in range(60):
            observer.images("reading", done, 60)
        (bar,) = (task for task in observer.display.tasks if task.completed == 59)
        assert bar.time_remaining is not None
        observer.images("encoding", 0, 60)
        assert bar.time_remaining is None


def test_results_that_go_elsewhere_are_not_drawn_with_the_bars(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.bars() as observer:
        observer.parts("cells", 0, 2)
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in terminal.text


def test_no_bars_where_nobody_looks(capsys):
    with progress.bars() as observer:
        observer.images("reading", 3, 60)
        observer.step(Progress("train", 12, None, 0, 2.0, {}))
    assert capsys.readouterr() == ("", "")


def test_bar_facts_without_a_loss():
    assert progress.facts(Progress("train", 10, None, 0, 4.0, {})) == "2.5 steps/s"


def test_a_verb_leaves_the_handlers_of_its_caller_alone(run, tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    run("info", tmp_path / "nowhere")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
