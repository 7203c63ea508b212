"""`torchrun … normscope fit`: one rank writes and speaks, a killed one ends the others, and a restart goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from normscope import load

SETTINGS = ("--method", "surprisal", "--set", "width=16", "--set", "batch_size=8", "--json")
PATIENCE = 600


def start(count, *arguments):
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count), "--standalone"]
    return subprocess.Popen(
        [*launch, "-m", "normscope", "fit", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def ranks_of(launcher):
    """Process ids of what the launcher started."""
    listed = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text()
    return [int(word) for word in listed.split()]


def running(number):
    """Whether there is such a process, and it has not ended."""
    stat = Path(f"/proc/{number}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_two_processes_write_one_model_and_print_one_result(images, tmp_path):
    folder = images(tmp_path / "good", 40)
    process = start(2, folder, "-o", tmp_path / "two", *SETTINGS, "--epochs", 2)
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert out.count('"threshold"') == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", "two"]
    assert load(tmp_path / "two").card["training"]["steps"] > 0


@pytest.mark.slow
def test_a_budget_ends_all_processes_at_the_same_step(images, tmp_path):
    folder = images(tmp_path / "good", 40)
    process = start(2, folder, "-o", tmp_path / "two", *SETTINGS, "--budget", "20s")
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks in /proc")
def test_a_killed_rank_ends_the_others_and_a_restart_goes_on(images, tmp_path):
    folder, model = images(tmp_path / "good", 40), tmp_path / "model"
    process = start(2, folder, "-o", model, *SETTINGS, "--epochs", 100_000)
    checkpoint = first_checkpoint(process, model)
    ranks = ranks_of(process)
    os.kill(ranks[1], signal.SIGKILL)
    killed = time.monotonic()
    while running(ranks[0]):
        assert time.monotonic() - killed < 60
        time.sleep(0.1)
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    first = steps_in(checkpoint)
    again = start(2, folder, "-o", model, *SETTINGS, "--epochs", 100_000, "--resume")
    while steps_in(checkpoint) <= first:
        assert again.poll() is None, again.communicate()
        assert time.monotonic() < killed + PATIENCE
        time.sleep(0.1)
    again.send_signal(signal.SIGINT)
    _, errors = again.communicate(timeout=PATIENCE)
    assert "the state of training is saved" in errors


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the ranks in /proc")
@pytest.mark.parametrize("receiver", ["torchrun", "rank 0", "rank 1"])
def test_sigterm_at_any_process_ends_all_with_the_state_saved(receiver, images, tmp_path):
    process = start(2, images(tmp_path / "good", 40), "-o", tmp_path / "model", *SETTINGS, "--epochs", 100_000)
    checkpoint = first_checkpoint(process, tmp_path / "model")
    ranks = ranks_of(process)
    before = steps_in(checkpoint)
    os.kill({"torchrun": process.pid, "rank 0": ranks[0], "rank 1": ranks[1]}[receiver], signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert not any(map(running, ranks))
    assert errors.count("the state of training is saved") == 1
    assert steps_in(checkpoint) > before


def first_checkpoint(process, model):
    """Waits for it; its path."""
    checkpoint, patience = model.with_name(f"{model.name}.checkpoint"), time.monotonic() + PATIENCE
    while not checkpoint.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < patience
        time.sleep(0.1)
    return checkpoint


def steps_in(path):
    from normscope.training import checkpoint

    return checkpoint.load(path)[0]["place"]["step"]


@pytest.mark.slow
def test_a_method_that_trains_nothing_says_so(images, tmp_path):
    folder = images(tmp_path / "good", 12)
    process = start(2, folder, "-o", tmp_path / "model", "--method", "pca")
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert errors.count("error: the method pca trains nothing that processes could share; leave out torchrun") == 1
