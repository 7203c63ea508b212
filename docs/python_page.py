"""The page of the Python interface: public names with their signatures and docstrings."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import NamedTuple

import normscope
from normscope import calibration, drift, model, recalibration
from normscope.images import notation
from normscope.objective import cross_entropy, entropy, information
from normscope.sklearn import AnomalyDetector


class Room(NamedTuple):
    title: str
    module: str
    names: dict[str, object]


def rooms() -> list[Room]:
    return [
        Room("Detector", "normscope", {name: getattr(normscope, name) for name in normscope.__all__}),
        Room("scikit-learn", "normscope.sklearn", {"AnomalyDetector": AnomalyDetector}),
        Room("Model", "normscope.model", named(model.Model, model.load)),
        Room("Calibration", "normscope.calibration", named(calibration.Calibration)),
        Room(
            "Recalibration", "normscope.recalibration", named(recalibration.read_verdicts, recalibration.recalibrated)
        ),
        Room("Drift", "normscope.drift", named(drift.begin, drift.carried_on, drift.Drift)),
        Room("Paths in rows", "normscope.images.notation", named(notation.printable, notation.from_printable)),
        *(Room(*titled, listed(module)) for titled, module in ESTIMATORS.items()),
    ]


ESTIMATORS = {
    ("Estimators of information", "normscope.objective.information"): information,
    ("Estimators of entropy", "normscope.objective.entropy"): entropy,
    ("The third term", "normscope.objective.cross_entropy"): cross_entropy,
}


def named(*things: type | Callable[..., object]) -> dict[str, object]:
    return {thing.__name__: thing for thing in things}


def listed(module: object) -> dict[str, object]:
    return {name: getattr(module, name) for name in module.__all__}


def page() -> str:
    return "\n".join(["# Python", "", *(line for room in rooms() for line in section(room))])


def section(room: Room) -> list[str]:
    lines = [f"## {room.title}", "", f"In `{room.module}`.", ""]
    for name, thing in room.names.items():
        lines += entry(name, name, thing, level=3)
        if inspect.isclass(thing):
            for method, value in public(thing):
                lines += entry(f"{name}.{method}", method, value, level=4)
    return lines


def public(kind: type) -> list[tuple[str, object]]:
    """What the class itself defines and describes: methods and properties, in their order."""
    own = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    wanted = (property, classmethod, staticmethod)
    told = {name: value for name, value in own.items() if inspect.isfunction(value) or isinstance(value, wanted)}
    return [(name, value) for name, value in told.items() if value.__doc__]


def entry(title: str, name: str, thing: object, level: int) -> list[str]:
    shown = getattr(thing, "__func__", thing)  # of a classmethod or staticmethod
    lines = [f"{'#' * level} {title}", ""]
    made_by = shown.__init__ if inspect.isclass(shown) else shown
    if inspect.isfunction(made_by) and (not inspect.isclass(shown) or not dataclasses.is_dataclass(shown)):
        lines += ["```text", name + signature(made_by), "```", ""]
    return [*lines, inspect.getdoc(shown) or "", ""]


def signature(function: FunctionType) -> str:
    """As it stands in the source, without its name and self."""
    source = textwrap.dedent(inspect.getsource(function))
    written = ast.parse(source).body[0]
    assert isinstance(written, ast.FunctionDef)
    head = "\n".join(source.splitlines()[written.lineno - 1 : written.body[0].lineno - 1])
    return re.sub(r"\bself(, |,\n +)?", "", head.removeprefix(f"def {written.name}").rstrip(":"), count=1).removesuffix(
        " -> None"
    )
