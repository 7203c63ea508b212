import subprocess
import sys

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


def test_every_public_name_can_be_imported():
    for name in normscope.__all__:
        found = getattr(normscope, name)
        assert found.__name__ == name
        assert found.__module__.startswith("normscope.")
        assert found.__doc__


def test_a_star_import_brings_the_public_names_and_no_others():
    names = {}
    exec("from normscope import *", names)
    assert names.keys() - {"__builtins__"} == set(normscope.__all__) >= {"Detector", "load"}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'detector_of_lies'"):
        normscope.detector_of_lies  # noqa: B018


def test_the_version_is_that_of_the_package():
    assert normscope.__version__.count(".") == 2


def test_help_lists_the_verbs_without_importing_torch():
    shown, imported = modules_after(HELP)
    assert all(verb in shown for verb in ("demo", "fit", "score", "doctor", "bench"))
    assert "normscope" in imported
    assert not imported & {"torch", "numpy", "sklearn", "scipy", "PIL"}
