"""Model files, opened by verbs that score."""

from pathlib import Path
from typing import TYPE_CHECKING

from normscope.training.interrupt import deferred

if TYPE_CHECKING:
    from normscope.model import Model


def import_all() -> None:
    """What takes seconds to import, with Ctrl-C held back until it is there: inside an import it may be swallowed."""
    with deferred() as stop:
        import normscope.fitting  # noqa: F401
        from normscope.training.allocator import keep_freed_memory

        keep_freed_memory()
    stop.raise_if_requested()


def open_model(path: Path, device: str, rate: float | None) -> "Model":
    """That of `normscope fit` or `export`, at another false-alarm rate if one is given."""
    import_all()
    from normscope.export import exported

    model = exported.open_model(path, device=device)
    return model if rate is None else model.at(rate)
