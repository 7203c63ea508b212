import subprocess
import sys

import pytest

from normscope.benchmark.cell import Cell
from normscope.benchmark.claims import claim

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no locks there")

ONE, OTHER = (Cell("digits", "knn", normal, 0, 1.0, {"k": 5}) for normal in range(2))


def test_a_cell_is_claimed_once_until_it_is_released(tmp_path):
    held = claim(tmp_path / "r", ONE)
    assert claim(tmp_path / "r", ONE) is None
    other = claim(tmp_path / "r", OTHER)
    elsewhere = claim(tmp_path / "q", ONE)
    for each in (held, other, elsewhere):
        each.release()
    claim(tmp_path / "r", ONE).release()
    assert not list(tmp_path.iterdir())


def test_a_link_to_the_file_is_the_same_file(tmp_path):
    (tmp_path / "r").touch()
    (tmp_path / "link").symlink_to(tmp_path / "r")
    held = claim(tmp_path / "r", ONE)
    assert claim(tmp_path / "link", ONE) is None
    held.release()


def test_the_claim_of_a_process_that_died_blocks_nobody(tmp_path):
    script = "import os, sys, pathlib\nfrom normscope.benchmark.cell import Cell\n"
    script += "from normscope.benchmark.claims import claim\n"
    script += f"held = claim(pathlib.Path(sys.argv[1]), {ONE!r})\nos.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", script, tmp_path / "r"]).returncode == -9
    assert len(list(tmp_path.iterdir())) == 1, "it had claimed nothing"
    claim(tmp_path / "r", ONE).release()
    assert not list(tmp_path.iterdir())


def test_a_claim_that_is_released_while_another_waits_for_it_is_not_shared(tmp_path, monkeypatch):
    """The other has opened the file before it was removed, and locks it afterwards: what it holds then is no claim."""
    from normscope import locks

    held, lock = claim(tmp_path / "r", ONE), locks.lock

    def released_first(file, *, wait):
        monkeypatch.setattr(locks, "lock", lock)
        held.release()
        lock(file, wait=wait)

    monkeypatch.setattr(locks, "lock", released_first)
    other = claim(tmp_path / "r", ONE)
    assert other.path.exists()
    assert claim(tmp_path / "r", ONE) is None
    other.release()
