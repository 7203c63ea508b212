"""The page as text; what it does in a browser is in test_browser.py."""

import json
import re
from dataclasses import replace
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from normscope.model import Scored, load
from normscope.report.axis import make_axis
from normscope.report.gathering import Gathering
from normscope.report.page import data, embedded, lead, page
from normscope.report.thumbnail import thumbnail

HOSTILE = [
    "<script>alert(1).png",
    "</script><script>alert(1).png",
    '"><img src=x onerror=alert(1)>.png',
    "a&amp;b.png",
    "=1+1.png",
    "${x} $title.png",
]


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text of the ranked table's paths."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def row(path: str, score: float | None, anomalous: bool = False, error: str | None = None) -> dict:
    known = score is not None
    p_value = 0.25 if known else None
    return {
        "path": path,
        "score": score,
        "p_value": p_value,
        "p_estimate": p_value,
        "anomalous": anomalous if known else None,
        "error": error,
    }


def gathered(rows, expected=None) -> Gathering:
    found = Gathering(expected or len(rows))
    found.rows = rows
    return found


@pytest.fixture(scope="module")
def model(explaining):
    return load(explaining)


def written(gathering, model) -> str:
    return page(gathering, model, "model.safetensors", "0" * 64, datetime(2026, 3, 5, 9, 7))


def test_it_says_what_was_found(model):
    text = written(gathered([row("a.png", 9.0, True), row("b.png", -1.0), row("c.png", None, error="cut off")]), model)
    assert "<title>1 of 2 images is anomalous · normscope</title>" in text
    assert "normscope report · 5 March 2026, 09:07" in text
    assert "1 file could not be read" in text
    assert "cut off" in text
    assert text.index("a.png") < text.index("b.png")
    assert 'data-score="9.0"' in text
    assert "surprisal: " in text
    assert "60 of 80 normal images" in text or "80 normal images" in text
    assert "Scoring was interrupted" not in text
    assert "$" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


def test_nothing_in_it_reaches_the_network_or_is_an_inline_handler(model):
    text = written(gathered([row(name, 1.0) for name in HOSTILE]), model)
    elements = Elements(text).found
    assert not {tag for tag, _ in elements} & {"link", "iframe", "object", "embed", "base", "form"}
    addresses = [value for _, has in elements for name, value in has.items() if name in ("src", "href", "srcset")]
    assert all(value.startswith("data:image/") for value in addresses)
    assert not [name for _, has in elements for name in has if name.startswith("on") or name == "style"]
    assert not re.search(r"https?://", text)
    assert "default-src 'none'" in text


def test_names_are_text_and_nothing_else(model):
    text = written(gathered([row(name, 1.0) for name in HOSTILE]), model)
    tags = [tag for tag, _ in Elements(text).found]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert "&lt;script&gt;alert(1).png" in text
    assert r'data-cell="\x3d1+1.png"' in text
    assert "${x} $title.png" in text


def test_a_reason_and_a_model_are_text_too(model):
    odd = replace(model, card={**model.card, "normscope": "</script><script>alert(1)//"})
    text = page(gathered([row("a", None, error="<b>bad</b>")]), odd, "<i>.safetensors", "0", datetime(2026, 1, 1))
    assert [tag for tag, _ in Elements(text).found].count("script") == 2
    assert "<b>" not in text
    assert "<i>" not in text


def test_json_cannot_end_its_element():
    assert "</" not in embedded({"a": "</script>"})
    assert json.loads(embedded({"a": "</script>"})) == {"a": "</script>"}


def test_the_rate_of_a_threshold_is_the_calibration_s_own(model):
    text = written(gathered([row("a.png", 1.0)]), model)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
    known = model.calibration
    assert data["threshold"] == known.threshold
    own = dict(zip(data["knots"], data["rates"], strict=True))[known.threshold]
    assert own == known.achievable or own <= known.rate
    above = known.scores[known.scores > known.threshold]
    assert own == (1 + len(above)) / (1 + len(known.scores))


def test_without_calibration_there_is_an_order_alone(model):
    rows = [row("a.png", 2.0) | {"p_value": None, "anomalous": None}]
    text = written(gathered(rows), replace(model, calibration=None))
    assert "1 image, the most surprising first" in text
    assert '<th scope="col" class="number">p-value</th>' not in text
    assert 'class="label"' not in text


def test_an_interrupted_run_and_one_without_any_image(model):
    assert "1 of 5 files are in this report" in written(gathered([row("a", 1.0)], expected=5), model)
    text = written(gathered([row("a", None, error="bad")]), model)
    assert "0 of 0 images are anomalous" in text
    assert "No image could be scored." in text


def test_a_thousand_images_are_less_than_5_mb_and_ten_thousand_stay_small(model):
    noise = np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)
    folder = "/somewhere/on a drive/that has/a long name/" * 3
    for n, most in ((1000, 5_000_000), (10_000, 9_000_000)):
        found = gathered([row(f"{folder}{i:06}.png", float(-i), i < 50) for i in range(n)])
        worst = thumbnail(noise, np.random.default_rng(0).uniform(0, 3, (28, 28)), found.most_bytes)
        found.thumbnails = dict.fromkeys(range(1000), worst)
        text = written(found, model)
        assert len(text.encode()) < most
        assert text.count('class="thumb"') == 1000
        assert text.count("<tr data-score") == n
    assert "Pictures are kept of the 1,000 most surprising images; the other 9,000 are rows without one." in text


def test_the_rows_of_a_page_are_those_of_the_command_line(model, parts):
    paths = sorted((parts / "bad").iterdir())
    found = Gathering(len(paths))
    for path, scored in zip(paths, model.scored(paths, with_heat=True), strict=True):
        found.add(path, scored)
    assert found.rows == list(model.rows(paths))
    assert len(found.thumbnails) == len(paths)
    assert all(one.heat for one in found.thumbnails.values())
    assert isinstance(Scored(found.rows[0], None).row, dict)
    assert Path(found.rows[0]["path"]) == paths[0]


@pytest.mark.parametrize(("kind", "word"), [("split", "at most"), ("cross", "about")])
def test_a_rate_is_promised_as_the_command_line_does(model, kind, word):
    known = replace(model.calibration, kind=kind)
    axis = make_axis(known.scores, known.scores)
    assert f"which {word} " in lead(known, axis)
    assert f"anomalous: {word} " in known.promise
    assert data([], known, axis)["bound"] == word
