"""Benchmark data sets: every module here that has a function `load`. fashion_mnist.py is called `fashion-mnist`."""

import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from normscope.datasets.published import Published
from normscope.datasets.task import Benchmark
from normscope.errors import SettingError

__all__ = ["Benchmark", "about", "classes", "load", "names", "summary"]


def names() -> list[str]:
    """Every data set that `load` knows, sorted."""
    modules = [module.name for module in pkgutil.iter_modules(__path__)]
    return sorted(name.replace("_", "-") for name in modules if hasattr(_imported(name), "load"))


def load(name: str, root: Path | str | None = None) -> Benchmark:
    """Read and check the data set called `name`, in the folder `root` or, without one, in NORMSCOPE_DATA."""
    load_files: Callable[[Path | None], Benchmark] = _module(name).load
    return load_files(None if root is None else Path(root))


def about(name: str) -> Published:
    """The files that the data set consists of, and where they are published."""
    source: Published = _module(name).PUBLISHED
    return source


def summary(name: str) -> str:
    """What the data set is, in one line."""
    return (_module(name).__doc__ or "").splitlines()[0]


def classes(name: str, root: Path | None = None) -> dict[str, list[str]]:
    """Maps each class to the classes that were merged into it, usually none; no image is listed or read.

    `root` is needed for data sets whose classes are the folders found there.
    """
    module = _module(name)
    if hasattr(module, "CLASS_NAMES"):
        return {one: [] for one in module.CLASS_NAMES}
    classes_of_files: Callable[[Path | None], dict[str, list[str]]] = module.classes
    return classes_of_files(root)


def _module(name: str) -> ModuleType:
    if name not in names():
        raise SettingError(f"no data set {name!r}; choose from {', '.join(names())}")
    return _imported(name.replace("-", "_"))


def _imported(name: str) -> ModuleType:
    return import_module(f"{__name__}.{name}")
