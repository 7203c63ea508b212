import resource
import subprocess
import sys
from pathlib import Path

import pytest

import normscope

HELP = """
import sys
from normscope.cli import main
sys.argv = ["normscope", "--help"]
try:
    main()
except SystemExit as exit:
    assert exit.code in (0, None), exit.code
"""


def modules_after(code):
    """The modules that a new Python has imported once it ran the code."""
    listing = 'import sys\nprint(*sys.modules, sep="\\n", file=sys.stderr)'
    run = subprocess.run([sys.executable, "-c", f"{code}\n{listing}"], capture_output=True, text=True, check=True)
    return run.stdout, set(run.stderr.split())


def test_the_public_names():
    assert {"Detector", "load"} <= set(normscope.__all__)


@pytest.mark.parametrize("name", normscope.__all__)
def test_every_public_name_can_be_imported(name):
    found = getattr(normscope, name)
    assert found.__name__ == name
    assert found.__module__.startswith("normscope.")
    assert found.__doc__


def test_a_star_import_brings_the_public_names_and_no_others():
    names = {}
    exec("from normscope import *", names)
    assert names.keys() - {"__builtins__"} == set(normscope.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'detector_of_lies'"):
        normscope.detector_of_lies  # noqa: B018


def test_the_version_is_that_of_the_package():
    assert normscope.__version__.count(".") == 2


def test_importing_normscope_does_not_import_torch():
    _, imported = modules_after("import normscope")
    assert "normscope" in imported
    assert not imported & {"torch", "numpy", "sklearn"}


def test_an_import_would_be_noticed():
    _, imported = modules_after("def lazy():\n    import numpy\nlazy()")
    assert "numpy" in imported


def test_help_lists_the_verbs_without_importing_torch():
    shown, imported = modules_after(HELP)
    assert all(verb in shown for verb in ("demo", "fit", "score", "doctor", "bench"))
    assert not imported & {"torch", "numpy", "sklearn", "scipy", "PIL"}


def test_help_answers_within_half_a_second():
    command = [str(Path(sys.executable).with_name("normscope")), "--help"]
    seconds = []
    for _ in range(5):
        before = processor_seconds()
        subprocess.run(command, capture_output=True, check=True)
        seconds.append(processor_seconds() - before)
    assert min(seconds) < 0.5, seconds


def processor_seconds() -> float:
    """Of the processes that were run: unlike the clock's, they do not depend on what else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
