import json

from normscope.methods import find, method_names, settings_of
from normscope.settings import to_json


def test_one_line_for_each(run):
    code, out, err = run("methods")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == method_names()
    listed = json.loads(run("methods", "--json").out)
    assert listed == {name: find(name).__doc__.splitlines()[0] for name in method_names()}


def test_the_settings_of_one(run):
    for name in method_names():
        assert json.loads(run("methods", name, "--json").out) == to_json(settings_of(name)())
    assert run("methods", "knn").out == "k=5\n"


def test_no_such_method(refused):
    assert "no method 'nothing'; choose from" in refused("methods", "nothing")
