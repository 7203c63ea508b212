"""Learns what normal images look like from normal images alone, then says how surprising a new one is."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from normscope.detector import Detector, load

    __version__: str

__all__ = ["Detector", "load"]


def __getattr__(name: str) -> object:
    """The public names, imported when first asked for: torch takes seconds, `normscope --help` must not."""
    if name == "__version__":
        from importlib.metadata import version

        return version("normscope")
    if name in __all__:
        from normscope import detector

        return getattr(detector, name)
    raise AttributeError(f"module 'normscope' has no attribute {name!r}")
