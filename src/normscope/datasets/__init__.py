"""Benchmark data sets: a module here with a `load` is one, under its name with dashes for underscores."""

import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from normscope.datasets.task import Benchmark
from normscope.errors import SettingError

__all__ = ["Benchmark", "load", "names"]


def names() -> list[str]:
    """Every data set that `load` knows, sorted."""
    modules = [module.name for module in pkgutil.iter_modules(__path__)]
    return sorted(name.replace("_", "-") for name in modules if hasattr(_module(name), "load"))


def load(name: str, root: Path | str | None = None) -> Benchmark:
    """The data set called `name`, its files checked, from the folder `root` or else from NORMSCOPE_DATA."""
    if name not in names():
        raise SettingError(f"no data set {name!r}; choose from {', '.join(names())}")
    load_files: Callable[[Path | None], Benchmark] = _module(name.replace("-", "_")).load
    return load_files(None if root is None else Path(root))


def _module(name: str) -> ModuleType:
    return import_module(f"{__name__}.{name}")
