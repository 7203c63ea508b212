"""Completion in a real bash: the script that `--show-completion` prints is sourced and asked."""

import os
import shutil
import subprocess
import sys

import pytest

BASH = shutil.which("bash")
ASK = """
source <(normscope --show-completion)
ask() {
    COMP_WORDS=(normscope "$@"); COMP_CWORD=$#; COMPREPLY=()
    _normscope_completion normscope
    echo "${COMPREPLY[@]}"
}
"""


@pytest.fixture
def bash(tmp_path):
    """Runs lines in bash, with the command on its path and a home of its own."""
    if BASH is None:
        pytest.skip("needs bash")
    command = tmp_path / "bin" / "normscope"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m normscope "$@"\n')
    command.chmod(0o755)
    environment = os.environ | {"PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}

    def run(lines: str) -> list[str]:
        done = subprocess.run([BASH, "-c", lines], env=environment, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.splitlines()

    return run


def test_verbs_and_options_are_completed(bash):
    verbs, options, nothing = bash(f"{ASK}\nask sc\nask fit --false\nask score mod")
    assert verbs == "score"
    assert options == "--false-alarm-rate"
    assert nothing == "", "names of files are left to bash"


def test_it_is_installed_for_the_shell_that_is_used(bash, tmp_path):
    assert "bash completion installed" in bash("normscope --install-completion; true")[0]
    assert "normscope" in (tmp_path / ".bashrc").read_text()
    (script,) = (tmp_path / ".bash_completions").iterdir()
    assert "_NORMSCOPE_COMPLETE=complete_bash" in script.read_text()
