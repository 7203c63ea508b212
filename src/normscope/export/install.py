"""What the extra `export` installs, imported where it is used."""

from importlib import import_module
from types import ModuleType


def needed(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"{name} cannot be imported ({error}); pip install 'normscope[export]'") from error
