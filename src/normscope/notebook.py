"""What a notebook shows of a model: a card in HTML, its scores as a histogram, images with their heat maps."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from normscope.calibration import Calibration
from normscope.errors import SettingError
from normscope.images.notation import printable
from normscope.images.outcome import Kind
from normscope.intake import Images, as_sequence, expand, is_paths, read
from normscope.model import Model
from normscope.report import picture
from normscope.report.axis import make_axis
from normscope.report.colours import palette
from normscope.report.histogram import histogram
from normscope.report.layer import laid_over, layer
from normscope.report.words import count, in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["card", "plot_scores", "show"]

Scores = npt.NDArray[np.float64]

COLOURS = 250
LONGEST, SHORTEST = 640, 192  # pixels of the longer side: larger images are shrunk, smaller ones enlarged
ACROSS = 4
STYLE = """
.normscope { max-width: 44rem; }
.normscope dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; margin: 0 0 1rem; }
.normscope dt { font-weight: 600; }
.normscope dd { margin: 0; }
.normscope rect { fill: #7a8ca3; }
.normscope line { stroke: currentColor; stroke-opacity: 0.4; }
.normscope #line { stroke: #c2410c; stroke-opacity: 1; stroke-width: 2; }
.normscope text { fill: currentColor; font-size: 11px; text-anchor: middle; }
"""


def card(model: Model) -> str:
    """HTML: the model in plain words, and the calibration scores with the threshold."""
    known, chosen, summary = model.calibration, model.card["chosen"], model.card["summary"]
    words = in_words(model)
    words |= {"Chosen because": chosen} if chosen else {}
    words |= {"Summary": summary} if summary else {}
    words |= {"Promise": known.promise} if known else {}
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in words.items())
    return f'<div class="normscope"><style>{STYLE}</style><dl>{terms}</dl>{chart(known) if known else ""}</div>'


def chart(known: Calibration) -> str:
    text = f"{count(len(known.scores), 'calibration score')}, and the threshold {known.threshold:.4g}"
    drawn = histogram(make_axis(np.empty(0), known.scores), np.empty(0), known.scores, known.threshold, text)
    return f"<div>{escape(text)}</div>{drawn}"


def plot_scores(model: Model, images: Images | None) -> "Axes":
    """Shares of the calibration set and of `images` by score, and the threshold."""
    known, plt = model.calibration, pyplot()
    sets: dict[str, Scores] = {f"calibration ({len(known.scores)})": known.scores} if known else {}
    if images is not None:
        scores = model.scores(read(images, model.size))
        sets[f"images ({len(scores)})"] = scores
    if not sets:
        raise SettingError("the model was fitted without a calibration set, so it has no scores to plot; give images")
    _, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    edges = np.histogram_bin_edges(np.concatenate([*sets.values()]), 40)
    for (label, scores), colour in zip(sets.items(), ("#7a8ca3", "#1f5fbf"), strict=False):
        axes.hist(scores, edges, weights=np.full(len(scores), 1 / len(scores)), alpha=0.6, color=colour, label=label)
    if known:
        axes.axvline(known.threshold, color="#c2410c", label=f"threshold {known.threshold:.4g}")
    axes.set(xlabel="score", ylabel="share of images")
    axes.legend()
    return axes


def show(model: Model, images: Images, most: int) -> "Figure":
    """The `most` most surprising images, in the order in which they were given."""
    plt, store = pyplot(), read(images, model.size)
    scores = model.scores(store)
    chosen = np.sort(np.argsort(-scores, kind="stable")[:most])
    shown = pictures(images, chosen.tolist())
    if model.method.scaled_heat:
        heats = model.heat_maps(store.subset(chosen), model.size)
        shown = [(name, with_heat(pixels, heat)) for (name, pixels), heat in zip(shown, heats, strict=True)]
    across = min(len(shown), ACROSS)
    down = math.ceil(len(shown) / across)
    figure, axes = plt.subplots(down, across, figsize=(3 * across, 3.2 * down), squeeze=False, layout="constrained")
    for place in axes.flat:
        place.set_axis_off()
    for place, (name, pixels), title in zip(axes.flat, shown, titles(model, scores[chosen]), strict=False):
        place.imshow(pixels)
        place.set_title(f"{name}\n{title}", fontsize=9, parse_math=False)
    plt.close(figure)  # as the value of a cell it is shown once, and not a second time by pyplot
    return figure


def pictures(images: Images, chosen: Sequence[int]) -> list[tuple[str, picture.Pixels]]:
    """Name and pixels [h, w, 3] of those that are chosen."""
    given = as_sequence(images)
    if is_paths(given):
        paths = [one.path for one in expand([Path(path) for path in given]) if one.kind is Kind.IMAGE]
        return [(printable(paths[index].name), picture.read(paths[index], LONGEST)) for index in chosen]
    arrays = [np.asarray(given[index]) for index in chosen]
    coloured = [one if one.ndim == 3 else np.repeat(one[..., None], 3, 2) for one in arrays]
    return [(f"image {index}", picture.within(one, LONGEST)) for index, one in zip(chosen, coloured, strict=True)]


def with_heat(pixels: picture.Pixels, heat: picture.Heat) -> picture.Pixels:
    large = picture.enlarged(pixels, SHORTEST)
    return laid_over(large, layer(heat, (large.shape[0], large.shape[1]), COLOURS), palette(COLOURS))


def titles(model: Model, scores: Scores) -> list[str]:
    if model.calibration is None:
        return [f"score {score:.4g}" for score in scores]
    p_values, flagged = model.calibration.p_values(scores), model.calibration.anomalous(scores)
    return [f"p {p:.3f}{', anomalous' if odd else ''}" for p, odd in zip(p_values, flagged, strict=True)]


def pyplot() -> ModuleType:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; pip install 'normscope[plots]'") from error
    return plt
