"""The methods: one file and one class each, found by the name of the file. Adding a file adds a method."""

import importlib
import pkgutil
from dataclasses import dataclass
from types import ModuleType

from normscope.errors import SettingError
from normscope.training.method import Method, MethodSettings

AUTO = "auto"  # no method: `choice.py` puts one in its place
PAPER = {"paper_base": "base", "paper_extension": "extension"}  # base.py would look like a base class


@dataclass(frozen=True)
class NoSettings:
    """Of `auto`: the method that is chosen has its defaults."""


def method_names() -> list[str]:
    """As on the command line: `random-encoder` is random_encoder.py."""
    return sorted(files())


def files() -> dict[str, str]:
    """The module of each method."""
    modules = [module.name for module in pkgutil.iter_modules(__path__)]
    return {PAPER.get(module, module.replace("_", "-")): module for module in modules}


def find(name: str) -> type[Method]:
    """The one Method that the file of that name defines."""
    module = file_of(name)
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    return next(kind for kind in kinds if issubclass(kind, Method))


def settings_of(name: str) -> type[MethodSettings]:
    """The frozen dataclass `Settings` in the same file."""
    if name == AUTO:
        return NoSettings
    settings: type[MethodSettings] = file_of(name).Settings
    return settings


def file_of(name: str) -> ModuleType:
    if name not in files():
        raise SettingError(f"no method {name!r}; choose from {', '.join([AUTO, *method_names()])}")
    return importlib.import_module(f"{__name__}.{files()[name]}")
