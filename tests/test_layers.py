"""Who may import whom, read from the source with `ast`; imports inside functions count like any other."""

import ast
from pathlib import Path

import pytest

import normscope

SOURCE = Path(normscope.__file__).parent

# From the ground up; a room imports its own floor and those below. `normscope` is __init__.py, the public names.
FLOORS = [
    {"settings", "errors", "files", "locks", "sealed", "triangles"},
    {"objective"},
    {"networks", "views", "images", "datasets"},
    {"training"},
    {"methods", "scoring"},
    {
        "fitting",
        "model",
        "options",
        "intake",
        "card",
        "choice",
        "calibration",
        "recalibration",
        "drift",
        "hotfolder",
        "rowlog",
        "rows",
        "outliers",
        "inference",
        "forecast",
        "rehearsal",
        "folds",
        "finishing",
        "tail",
        "tracking",
        "artifact",
    },
    {"benchmark", "tables"},
    {"report", "notebook", "detector"},
    {"cli", "server", "export", "cluster", "sklearn", "normscope", "__main__"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

DECODES = {"normscope.images.reader"}
WRITES_PICTURES = {"normscope.cli.demo", "normscope.report.picture"}
SEEDS = {"normscope.training.randomness"}
UNSAFE = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
# CIFAR-100 is published as pickles; its Unpickler admits numpy arrays alone, and nothing else of pickle is imported.
UNPICKLES = {("normscope.datasets.cifar100", "pickle.Unpickler")}
# The weights of encoders are published as PyTorch files; torch's own restricted reader admits tensors alone.
LOADS_TENSORS = {"normscope.networks.pretrained"}


def modules():
    """Every module's name and syntax tree."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(["normscope", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
        yield name, ast.parse(path.read_text())


def imported(tree):
    """Dotted names, with the name taken from a module as the last part: `from a import b` is a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write imports out in full, without leading dots"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def used(tree):
    """Dotted names that the code reads, such as torch.random.fork_rng."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            yield ast.unparse(node)


def room(name):
    """normscope.images.store.Store → images; the public names are in the room normscope."""
    parts = name.split(".")
    return "normscope" if len(parts) == 1 or parts[1] in normscope.__all__ else parts[1]


def rooms_imported(tree):
    names = {name for name in imported(tree) if name.split(".")[0] == "normscope"}
    return {room(name) for name in names - {"normscope.__version__"}}  # the version is a constant, not a room


def upward_imports(name, tree):
    own = room(name)
    missing = {r for r in {own, *rooms_imported(tree)} if r not in FLOOR}
    assert not missing, f"{missing} has no floor yet; give it one in tests/test_layers.py"
    return [f"{name} imports {other}" for other in sorted(rooms_imported(tree)) if FLOOR[other] > FLOOR[own]]


def sideways_imports(name, tree):
    """A method that imports another, or the table of them."""
    if not name.startswith("normscope.methods."):
        return []
    return [f"{name} imports {other}" for other in imported(tree) if other.startswith("normscope.methods")]


def picture_imports(name, tree):
    if name in DECODES | WRITES_PICTURES:
        return []
    return [f"{name} imports {other}" for other in imported(tree) if other.split(".")[0] == "PIL"]


def seeding(name, tree):
    if name in SEEDS:
        return []
    words = [*imported(tree), *used(tree)]
    return [
        f"{name} uses {word}"
        for word in words
        if word.split(".")[-1].startswith("manual_seed") or word.endswith("random.seed")
    ]


def unsafe_files(name, tree):
    loads = [word for word in [*imported(tree), *used(tree)] if word in ("torch.save", "torch.load")]
    loads = loads[tensors_alone(tree) if name in LOADS_TENSORS else 0 :]
    pickles = [other for other in imported(tree) if UNSAFE & set(other.split(".")) and (name, other) not in UNPICKLES]
    allowed = [
        f"allow_pickle={ast.unparse(node.value)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False"
    ]
    return [f"{name} uses {word}" for word in [*loads, *pickles, *allowed]]


def tensors_alone(tree):
    """How many calls of torch.load admit tensors alone."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load"]
    return sum(any(ast.unparse(keyword) == "weights_only=True" for keyword in call.keywords) for call in calls)


RULES = [upward_imports, sideways_imports, picture_imports, seeding, unsafe_files]


@pytest.mark.parametrize("rule", RULES)
def test_the_source_keeps_to(rule):
    assert [found for name, tree in modules() for found in rule(name, tree)] == []


def cycle(graph):
    """Rooms that import each other in a circle; none if rooms can be taken away one by one from the bottom."""
    left = {r: set(others) for r, others in graph.items()}
    while free := {r for r, others in left.items() if not others & left.keys()}:
        left = {r: others for r, others in left.items() if r not in free}
    return sorted(left)


def test_rooms_of_one_floor_do_not_import_in_a_circle():
    graph = {}
    for name, tree in modules():
        graph.setdefault(room(name), set()).update(rooms_imported(tree) - {room(name)})
    assert cycle(graph) == []


def test_every_module_is_looked_at():
    names = [name for name, _ in modules()]
    assert {"normscope", "normscope.cli", "normscope.cli.fit", "normscope.detector", *DECODES, *SEEDS} <= set(names)
    assert len(names) == len(list(SOURCE.rglob("*.py")))


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (upward_imports, "normscope.objective.entropy", "from normscope.training.loop import fit"),
        (upward_imports, "normscope.training.loop", "import normscope.methods.base"),
        (upward_imports, "normscope.training.loop", "from normscope import scoring"),
        (upward_imports, "normscope.settings", "def lazy():\n    from normscope.objective.entropy import laplace"),
        (upward_imports, "normscope.methods.base", "def lazy():\n    import normscope.detector as d"),
        (upward_imports, "normscope.detector", "from normscope import Detector"),
        (upward_imports, "normscope.benchmark.grid", "from normscope import __version__, cli"),
        (sideways_imports, "normscope.methods.base", "from normscope.methods.extension import Extension"),
        (sideways_imports, "normscope.methods.base", "from normscope.methods import find"),
        (sideways_imports, "normscope.methods.base", "def lazy():\n    from normscope import methods"),
        (picture_imports, "normscope.images.store", "from PIL import Image"),
        (picture_imports, "normscope.cli.score", "def lazy():\n    import PIL.Image"),
        (seeding, "normscope.methods.base", "import torch\ntorch.manual_seed(0)"),
        (seeding, "normscope.methods.base", "import torch\ng = torch.Generator().manual_seed(0)"),
        (seeding, "normscope.methods.base", "from torch import manual_seed"),
        (seeding, "normscope.methods.base", "import numpy as np\nnp.random.seed(0)"),
        (unsafe_files, "normscope.artifact", "import pickle"),
        (unsafe_files, "normscope.artifact", "from joblib import dump"),
        (unsafe_files, "normscope.artifact", "from pickle import Unpickler"),
        (unsafe_files, "normscope.datasets.cifar100", "from pickle import loads"),
        (unsafe_files, "normscope.datasets.cifar100", "import pickle"),
        (unsafe_files, "normscope.artifact", "import torch\ntorch.load('x')"),
        (unsafe_files, "normscope.artifact", "from torch import save"),
        (unsafe_files, "normscope.artifact", "import numpy as np\nnp.load('x', allow_pickle=True)"),
    ],
)
def test_a_violation_is_found(rule, name, source):
    assert rule(name, ast.parse(source))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("normscope.cli.fit", "def lazy():\n    from normscope.detector import Detector"),
        ("normscope.detector", "from normscope import __version__, artifact"),
        ("normscope.scoring.pair", "from normscope.training.randomness import seeded"),
        ("normscope.methods.base", "from normscope.scoring.norm import norm"),
        ("normscope.methods.methodical", "from elsewhere.methods import find"),
        ("normscope.images.reader", "from PIL import Image"),
        ("normscope.datasets.cifar100", "from pickle import Unpickler"),
        ("normscope.training.randomness", "import torch\ntorch.manual_seed(0)"),
        ("normscope.sealed", "from safetensors import torch as safetensors\nsafetensors.load(b'')"),
    ],
)
def test_what_is_allowed_is_not_found(name, source):
    assert [found for rule in RULES for found in rule(name, ast.parse(source))] == []


def test_a_room_without_a_floor_is_named():
    with pytest.raises(AssertionError, match="attic"):
        upward_imports("normscope.attic.box", ast.parse("import math"))


def test_a_circle_is_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == ["a", "b", "c", "d"]
