"""Figures with panels in one style, drawn without matplotlib's global state."""

from collections.abc import Sequence
from pathlib import Path

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise ImportError("experiments draw with matplotlib; pip install 'normscope[plots]'") from error

COLOURS = ("#1f5fa8", "#d1603d", "#3f8f5b", "#8a5fa8", "#b58a1b", "#4a9ba8", "#a8446a", "#6b6b6b", "#222222")
STYLES = ("-", "--", ":", "-.")


def panels(titles: Sequence[str], rows: int = 1, height: float = 3.0) -> tuple[Figure, list[Axes]]:
    """One panel for each title, in `rows` rows."""
    columns = -(-len(titles) // rows)
    figure = Figure(figsize=(3.4 * columns + 0.6, height * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, number + 1) for number in range(len(titles))]
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, fontsize=10)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def chance(axis: Axes) -> None:
    """A line at the AUROC of a random score."""
    axis.axhline(50, color="#999999", linewidth=0.8, linestyle=(0, (4, 3)))


def whole_numbers(axis: Axes) -> None:
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130, metadata={"Software": None})
