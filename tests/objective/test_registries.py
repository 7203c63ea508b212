import inspect

import pytest

from normscope.objective import critics, cross_entropy, entropy, information

NORMS = {"laplace", "laplace_sum", "gaussian", "gaussian_sum", "l2"}


def test_registries_hold_what_the_documentation_lists():
    assert set(information.__all__) == {"infonce", "jsd", "donsker_varadhan", "nwj", "smile", "decoupled"}
    assert set(entropy.__all__) == NORMS | {"coding_rate", "renyi", "koleo"}
    assert set(cross_entropy.__all__) == {"norm_margin", "gaussian"}
    assert set(critics.__all__) == {"dot", "cosine"}


@pytest.mark.parametrize(
    ("module", "required"),
    [(information, 2), (entropy, 1), (cross_entropy, 2), (critics, 3)],
    ids=["information", "entropy", "cross_entropy", "critics"],
)
def test_registered_functions_of_a_module_are_called_alike_and_described_in_one_line(module, required):
    for name in module.__all__:
        function = getattr(module, name)
        parameters = inspect.signature(function).parameters.values()
        assert sum(p.default is p.empty for p in parameters) == required, name
        assert (function.__module__, function.__name__) == (module.__name__, name)
        assert function.__doc__.endswith("."), name
        assert "\n" not in function.__doc__, name
