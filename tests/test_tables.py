"""The tables in README and docs are what results/ says."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_tables_are_those_of_the_results():
    check = subprocess.run([sys.executable, "docs/tables.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def test_a_changed_number_is_noticed(tmp_path):
    for name in ("docs", "results"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "README.md").write_text(
        (ROOT / "README.md").read_text().replace("| `surprisal` | ", "| `surprisal` | 1")
    )
    script = f"import sys; sys.argv = ['tables', '--check']; sys.path.insert(0, {str(ROOT / 'docs')!r})\n"
    script += f"import pathlib, tables; tables.ROOT = pathlib.Path({str(tmp_path)!r}); tables.main()"
    check = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert check.returncode == 1
    assert "README.md: not what results/ says" in check.stderr
