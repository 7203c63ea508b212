import inspect

import pytest

from normscope.objective import critics, cross_entropy, entropy, information

REGISTERED = [(m, name) for m in (information, entropy, cross_entropy, critics) for name in m.__all__]
NORMS = {"laplace", "laplace_sum", "gaussian", "gaussian_sum", "l2"}


@pytest.mark.parametrize(("module", "name"), REGISTERED)
def test_registered_name_is_a_function_of_its_module_with_one_line_docstring(module, name):
    function = getattr(module, name)
    assert inspect.isfunction(function)
    assert (function.__module__, function.__name__) == (module.__name__, name)
    assert function.__doc__.endswith(".")
    assert "\n" not in function.__doc__


@pytest.mark.parametrize(
    ("module", "required"), [(information, 2), (entropy, 1), (cross_entropy, 2), (critics, 3)], ids=lambda v: str(v)
)
def test_registered_functions_of_a_module_are_called_alike(module, required):
    for name in module.__all__:
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        assert sum(p.default is p.empty for p in parameters) == required


def test_registries_hold_what_the_documentation_lists():
    assert set(information.__all__) == {"infonce", "jsd", "donsker_varadhan", "nwj", "smile", "decoupled"}
    assert set(entropy.__all__) == NORMS | {"coding_rate", "renyi", "koleo"}
    assert set(cross_entropy.__all__) == {"norm_margin", "gaussian"}
    assert set(critics.__all__) == {"dot", "cosine"}
