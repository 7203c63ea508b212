import shutil
import subprocess
from pathlib import Path

import pytest

from normscope.benchmark import commit as module
from normscope.benchmark.commit import commit


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_the_commit_is_of_this_package_and_not_of_a_checkout_around_it(tmp_path):
    """Installed below somebody's checkout, as in .venv, the package has no commit."""
    for arguments in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"],
    ):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)

    def commit_of(folder: Path) -> str | None:
        folder.mkdir(parents=True, exist_ok=True)
        commit.cache_clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "__file__", str(folder / "commit.py"))
            return commit()

    assert commit_of(tmp_path / ".venv" / "lib" / "site-packages" / "normscope" / "benchmark") is None
    checkout = tmp_path / "src" / "normscope" / "benchmark"
    clean = commit_of(checkout)
    assert len(clean) >= 7
    (checkout / "changed.py").touch()
    assert commit_of(checkout) == clean + "+"
    commit.cache_clear()
