from xml.etree import ElementTree

import numpy as np
import pytest

from normscope.report.axis import make_axis
from normscope.report.histogram import histogram, shares

NORMAL = np.random.default_rng(0).normal(0, 1, 200)
SCORES = np.random.default_rng(1).normal(1, 2, 500)


def drawn(threshold=1.5, description="a < b", normal=NORMAL):
    return ElementTree.fromstring(histogram(make_axis(SCORES, normal), SCORES, normal, threshold, description))


def test_heights_are_shares_of_each_group():
    axis = make_axis(SCORES, NORMAL)
    assert shares(axis, SCORES).sum() == pytest.approx(1)
    assert shares(axis, NORMAL).sum() == pytest.approx(1)
    bars = drawn().findall("./g[@class='below']/rect")
    filled = shares(axis, SCORES)
    assert len(bars) == np.count_nonzero(filled)
    heights = np.array([float(bar.get("height")) for bar in bars])
    assert heights / heights.sum() == pytest.approx(filled[filled > 0], abs=0.005)


def test_the_threshold_is_at_its_place():
    picture = drawn()
    at = float(make_axis(SCORES, NORMAL).position(1.5)) * 100
    assert float(picture.find("./line[@id='line']").get("x1").rstrip("%")) == pytest.approx(at, abs=1e-3)
    assert float(picture.find(".//clipPath/rect").get("x").rstrip("%")) == pytest.approx(at, abs=1e-3)


def test_it_says_in_words_what_it_shows():
    assert drawn().get("aria-label") == "a < b"
    assert drawn().get("role") == "img"


def test_without_calibration_there_is_no_threshold():
    picture = drawn(None, normal=np.empty(0))
    assert picture.find("./line[@id='line']") is None
    assert not picture.findall("./g[@class='normal']/rect")
    assert picture.find(".//clipPath/rect").get("x") == "100%"  # nothing is above
