"""What a notebook shows, of every kind of images that a Detector takes."""

import re
import sys
from html import escape
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from normscope import Detector, load
from normscope.errors import SettingError


@pytest.fixture(scope="module")
def detector(explaining) -> Detector:
    return load(explaining)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    if plt := sys.modules.get("matplotlib.pyplot"):
        plt.close("all")


def test_the_card_says_what_was_learnt_and_draws_the_calibration_scores(detector):
    html = detector._repr_html_()
    HTMLParser().feed(html)
    height, width = detector.model.size
    pixels = f"{width} × {height} pixels"
    for text in ("surprisal: ", "60 of 80 normal images", pixels, detector.calibration.promise):
        assert escape(text) in html
    assert f"the threshold {detector.calibration.threshold:.4g}" in html
    assert "<svg" in html
    assert html.count("<rect") > 3


def test_why_the_method_was_chosen_is_on_the_card_and_is_no_markup(detector):
    from dataclasses import replace

    from normscope.notebook import card

    model = detector.model
    assert "Chosen because" not in card(model)
    html = card(replace(model, card={**model.card, "chosen": "<b>colour</b>"}))
    assert "<dt>Chosen because</dt><dd>&lt;b&gt;colour&lt;/b&gt;</dd>" in html


def test_a_detector_that_has_learnt_nothing_says_so():
    assert "nothing learnt yet; call fit" in Detector("knn")._repr_html_()


def test_scores_are_plotted_with_the_threshold(detector, parts):
    axes = detector.plot_scores(parts / "bad")
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    known = detector.calibration
    assert sorted(labels) == [f"calibration ({len(known.scores)})", "images (4)", f"threshold {known.threshold:.4g}"]
    (line,) = axes.get_lines()
    assert line.get_xdata()[0] == known.threshold
    heights = [sum(bar.get_height() for bar in bars) for bars in axes.containers]
    assert heights == pytest.approx([1, 1])
    assert len(detector.plot_scores().containers) == 1


def test_without_calibration_there_are_the_scores_of_images_alone(detector):
    plain = Detector("knn", false_alarm_rate=None).fit(np.random.default_rng(0).integers(0, 256, (9, 28, 28), np.uint8))
    with pytest.raises(SettingError, match="give images"):
        plain.plot_scores()
    assert "<svg" not in plain._repr_html_()
    images = np.zeros((2, 30, 30), np.uint8)
    assert not plain.plot_scores(images).get_lines()
    titles = [axes.get_title() for axes in plain.show(images).axes]
    assert all(re.fullmatch(r"image [01]\nscore \d.*", title) for title in titles)


@pytest.mark.parametrize("kind", ["folder", "paths", "arrays", "coloured"])
def test_images_are_shown_with_heat_and_p_values(detector, parts, kind):
    paths = sorted((parts / "bad").iterdir())
    arrays = np.stack([np.asarray(Image.open(path)) for path in paths])
    images = {"folder": parts / "bad", "paths": paths, "arrays": arrays, "coloured": list(np.stack([arrays] * 3, -1))}
    figure = detector.show(images[kind])
    p_values, flagged = detector.p_value(paths), detector.predict(paths)
    for number, axes in enumerate(figure.axes):
        name = f"image {number}" if kind in ("arrays", "coloured") else paths[number].name
        assert axes.get_title() == f"{name}\np {p_values[number]:.3f}{', anomalous' if flagged[number] else ''}"
        shown = np.asarray(axes.get_images()[0].get_array())
        assert shown.shape == (144, 192, 3)  # enlarged by a whole factor
        assert (np.ptp(shown.astype(int), axis=2) > 20).any(), "no colour, so no heat"


def test_of_many_images_the_most_surprising_are_shown_in_order(detector, parts):
    paths = [parts / "good" / "0.png", parts / "bad" / "1.png", parts / "good" / "2.png", parts / "bad" / "0.png"]
    names = [axes.get_title().partition("\n")[0] for axes in detector.show(paths, most=2).axes]
    assert names == ["1.png", "0.png"]


def test_a_figure_can_be_drawn_and_is_not_left_to_pyplot(detector, parts, tmp_path):
    import matplotlib.pyplot as plt

    figure = detector.show(parts / "good", most=5)
    assert plt.get_fignums() == []
    figure.savefig(tmp_path / "figure.png")
    with Image.open(tmp_path / "figure.png") as image:
        assert len(image.convert("RGB").getcolors(2**20)) > 20


def test_without_matplotlib_the_install_command_is_said(detector, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (detector.plot_scores, lambda: detector.show(np.zeros((1, 30, 30), np.uint8))):
        with pytest.raises(ImportError, match=r"pip install 'normscope\[plots\]'"):
            draw()
