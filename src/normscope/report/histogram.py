"""The histogram of a report, as SVG: scored images, the threshold, and behind them the calibration scores."""

from html import escape

import numpy as np

from normscope.report.axis import Axis, Scores

__all__ = ["histogram"]

BINS = 60
HEIGHT, BASE = 200, 176  # pixels: of the picture, and where its bars stand; widths are shares of the page
TALLEST = 160


def histogram(axis: Axis, scores: Scores, normal: Scores, threshold: float | None, description: str) -> str:
    """Heights are shares of the scored images and of the calibration set, each by itself.

    The bars are drawn twice, the second time in another colour and clipped at the threshold: who moves the threshold
    moves `#above` and `#line`.
    """
    known, new = (shares(axis, some) for some in (normal, scores))
    scale = TALLEST / max(known.max(), new.max())
    at = f"{100 * float(axis.position(threshold)):.3f}%" if threshold is not None else "100%"
    line = f'<line id="line" x1="{at}" x2="{at}" y1="0" y2="{BASE}"/>' if threshold is not None else ""
    return (
        f'<svg class="histogram" width="100%" height="{HEIGHT}" role="img" aria-label="{escape(description)}">'
        f'<defs><clipPath id="above"><rect x="{at}" y="0" width="100%" height="{HEIGHT}"/></clipPath></defs>'
        f'<g class="normal">{bars(known * scale)}</g><g class="below">{bars(new * scale, 0.2)}</g>'
        f'<g clip-path="url(#above)"><g class="above">{bars(new * scale, 0.2)}</g></g>'
        f'<line class="base" x1="0" x2="100%" y1="{BASE}" y2="{BASE}"/>{line}{labels(axis)}</svg>'
    )


def shares(axis: Axis, scores: Scores) -> Scores:
    """[BINS]: the share of the scores in each bin."""
    counts, _ = np.histogram(axis.position(scores), BINS, (0, 1))
    return counts / max(len(scores), 1)


def bars(heights: Scores, gap: float = 0.0) -> str:
    """Rectangles, `gap` of a bin apart; whatever is not empty is at least a pixel high."""
    step = 100 / len(heights)
    return "".join(
        f'<rect x="{step * (index + gap / 2):.3f}%" y="{BASE - max(height, 1):.1f}" '
        f'width="{step * (1 - gap):.3f}%" height="{max(height, 1):.1f}"/>'
        for index, height in enumerate(heights)
        if height
    )


def labels(axis: Axis) -> str:
    return "".join(
        f'<text x="{100 * float(axis.position(tick)):.2f}%" y="{HEIGHT - 6}">{tick:g}</text>'.replace("-", "−")
        for tick in axis.ticks()
    )
