"""The tables in README and docs are what results/ says."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_tables_are_those_of_the_results():
    check = subprocess.run([sys.executable, "docs/tables.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def test_a_changed_number_is_noticed_and_put_right(tmp_path, monkeypatch):
    (tmp_path / "results").symlink_to(ROOT / "results")
    (tmp_path / "docs").mkdir()
    for path in [*ROOT.glob("docs/*.py"), *ROOT.glob("docs/*.md")]:
        shutil.copy(path, tmp_path / "docs")
    right = (ROOT / "README.md").read_text()
    (tmp_path / "README.md").write_text(right.replace("| CIFAR-10 | ", "| CIFAR-10 | 1"))
    monkeypatch.syspath_prepend(str(tmp_path / "docs"))
    for name in ("lines", "paper_tables", "product_tables"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "argv", ["tables", "--check"])
    with pytest.raises(SystemExit, match=r"^README\.md: not what results/ says"):
        runpy.run_path(str(tmp_path / "docs" / "tables.py"), run_name="__main__")
    monkeypatch.setattr(sys, "argv", ["tables"])
    runpy.run_path(str(tmp_path / "docs" / "tables.py"), run_name="__main__")
    assert (tmp_path / "README.md").read_text() == right
    for name in ("lines", "paper_tables", "product_tables"):
        del sys.modules[name]
