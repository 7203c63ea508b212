"""The report of a scored folder: one HTML file that needs nothing else, and works without script."""

import base64
import hashlib
import json
from dataclasses import asdict
from datetime import datetime
from html import escape
from importlib import resources
from string import Template

import numpy as np

from normscope.calibration import Calibration, percent
from normscope.model import Model, Row
from normscope.report.axis import Axis, Scores, make_axis
from normscope.report.colours import palette
from normscope.report.gathering import MOST_PICTURES, Gathering
from normscope.report.histogram import histogram
from normscope.report.rows import shown_score, table_rows, unreadable_rows
from normscope.report.words import count, in_words

__all__ = ["page"]

STYLES, SCRIPTS = ("page.css",), ("threshold.js", "images.js", "review.js")


def page(gathering: Gathering, model: Model, file: str, checksum: str, written: datetime) -> str:
    """HTML of what was gathered with this model, which was read from a file of that name and checksum."""
    rows, known = gathering.rows, model.calibration
    scores = np.array([row["score"] for row in rows if row["score"] is not None], np.float64)
    normal = known.scores if known else np.empty(0)
    axis = make_axis(scores, normal) if len(scores) else Axis(0.0, 1.0, -1.0, 1.0)
    unreadable = unreadable_rows(rows)
    style, script = assets(STYLES) + heat_gradient(), assets(SCRIPTS)
    return Template(asset("page.html")).substitute(
        policy=policy(style, script),
        style=style,
        script=script,
        data=embedded(data(rows, known, axis)),
        title=escape(headline(rows, known)),
        lead=lead(known, axis),
        interrupted=interrupted(gathering),
        chart=chart(axis, scores, known),
        calibrated="" if known else "hidden",
        explained="" if model.method.scaled_heat else "hidden",
        unexplained="hidden" if model.method.scaled_heat else "",
        method=escape(model.card["method"]),
        p_header='<th scope="col" class="number">p-value</th>' if known else "",
        rows="".join(table_rows(rows, gathering.thumbnails, axis.decimals)),
        pictures=pictures(len(scores)),
        unreadable=unreadable_section(unreadable),
        card="".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in in_words(model).items()),
        file=escape(file),
        checksum=escape(checksum),
        settings=escape(json.dumps(model.card, indent=2, ensure_ascii=False)),
        written=written.strftime("%d %B %Y, %H:%M").lstrip("0"),
    )


def headline(rows: list[Row], known: Calibration | None) -> str:
    scored = sum(row["score"] is not None for row in rows)
    if known is None:
        return f"{count(scored, 'image')}, the most surprising first"
    flagged = sum(bool(row["anomalous"]) for row in rows)
    return f"{flagged:,} of {count(scored, 'image')} {'is' if flagged == 1 else 'are'} anomalous"


def lead(known: Calibration | None, axis: Axis) -> str:
    if known is None:
        return "The model was fitted without a calibration set, so there is no threshold: only an order."
    threshold = shown_score(known.threshold, axis.decimals)
    rate = percent(float(known.p_values(np.nextafter([known.threshold], np.inf))[0])).replace(" ", "\u00a0")
    return f"Scores above {threshold}, which {known.bound} {rate} of normal images exceed."


def interrupted(gathering: Gathering) -> str:
    done, all_of_them = len(gathering.rows), gathering.expected
    if done == all_of_them:
        return ""
    return (
        f'<p class="notice">Scoring was interrupted: {done:,} of {count(all_of_them, "file")} are in this report.</p>'
    )


def chart(axis: Axis, scores: Scores, known: Calibration | None) -> str:
    if not len(scores):
        return "<p>No image could be scored.</p>"
    decimals = axis.decimals
    text = f"Histogram of {count(len(scores), 'score')} from {shown_score(scores.min(), decimals)} to "
    text += f"{shown_score(scores.max(), decimals)}."
    if known is None:
        return histogram(axis, scores, np.empty(0), None, text)
    text += f" Behind them {count(len(known.scores), 'calibration score')} of normal images, from "
    text += f"{shown_score(known.scores[0], decimals)} to {shown_score(known.scores[-1], decimals)}; the threshold is "
    return histogram(axis, scores, known.scores, known.threshold, f"{text}{shown_score(known.threshold, decimals)}.")


def data(rows: list[Row], known: Calibration | None, axis: Axis) -> dict[str, object]:
    """For the script. Where a threshold is in [knots[i], knots[i + 1]), it stands for the false-alarm rate rates[i]."""
    identity = hashlib.sha256(repr([(row["path"], row["score"]) for row in rows]).encode()).hexdigest()[:16]
    found: dict[str, object] = {"id": identity, "axis": asdict(axis), "decimals": axis.decimals, "threshold": None}
    if known is not None:
        knots = np.unique(known.scores)
        rates = known.p_values(np.nextafter(knots, np.inf))
        found |= {"threshold": known.threshold, "bound": known.bound}
        found |= {"knots": knots.tolist(), "rates": rates.tolist()}
    return found


def pictures(scored: int) -> str:
    if scored <= MOST_PICTURES:
        return ""
    return (
        f"<p>Pictures are kept of the {MOST_PICTURES:,} most surprising images; the other "
        f"{scored - MOST_PICTURES:,} are rows without one.</p>"
    )


def unreadable_section(found: list[str]) -> str:
    if not found:
        return ""
    return (
        f'<section aria-labelledby="unreadable"><h2 id="unreadable">{count(len(found), "file")} could not be read</h2>'
        '<table class="files"><thead><tr><th scope="col">File</th><th scope="col">Why</th></tr></thead>'
        f"<tbody>{''.join(found)}</tbody></table></section>"
    )


def heat_gradient() -> str:
    """The colours of heat over grey, for the legend."""
    stops = [f"rgb({r} {g} {b} / {a / 255:.2f})" for r, g, b, a in palette(16)[:16].tolist()]
    return f"\n:root {{ --heat: linear-gradient(to right, {', '.join(stops)}); }}\n"


def policy(style: str, script: str) -> str:
    """Content-Security-Policy: nothing is loaded, and no other script runs, whatever the names of files are."""

    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    allowed = f"img-src data:; style-src {hashed(style)}; script-src {hashed(script)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def embedded(value: object) -> str:
    """JSON inside a script element, which it cannot end."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def assets(names: tuple[str, ...]) -> str:
    return "".join(asset(name) for name in names)


def asset(name: str) -> str:
    return resources.files("normscope.report").joinpath(name).read_text(encoding="utf-8")
