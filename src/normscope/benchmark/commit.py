"""Which commit a result was measured with."""

import subprocess
from functools import cache
from pathlib import Path


@cache
def commit() -> str | None:
    """The short hash, with a plus if the source has uncommitted changes; None for an installed package.

    Part of the package and not of experiments/, because `bench` records it for every result.
    """
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():  # an environment inside another project's checkout must not report its commit
        return None
    try:
        return git(root, "rev-parse", "--short", "HEAD") + "+" * bool(git(root, "status", "--porcelain", "--", "src"))
    except (OSError, subprocess.CalledProcessError):
        return None


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
