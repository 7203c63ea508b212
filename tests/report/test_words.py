from dataclasses import replace

import pytest

from normscope.model import load
from normscope.report.words import count, in_words


@pytest.fixture(scope="module")
def model(explaining):
    return load(explaining)


def changed(model, **data):
    return replace(model, card={**model.card, "data": {**model.card["data"], **data}})


def test_a_card_in_words(model):
    said = in_words(model)
    assert said["Method"].startswith("surprisal: ")
    assert said["Learnt from"].endswith("normal images")
    assert said["Sees"] == "every image at 48 × 48 pixels; those it learnt from were all grey"
    assert "that it had not learnt from, for a false-alarm rate of 10 %" in said["Calibrated with"]
    assert said["Training"] == "nothing to train, seed 0, on cpu" or "steps" in said["Training"]


def test_what_was_left_out_and_added_is_said(model):
    said = in_words(changed(model, images=90, trained_on=90, skipped=1, anomalies=3))["Learnt from"]
    assert said == "90 normal images, and 3 labelled anomalies; 1 file could not be used"


def test_no_calibration_is_said(model):
    assert in_words(replace(model, calibration=None))["Calibrated with"].startswith("nothing")


def test_one_is_singular():
    assert count(1, "image") == "1 image"
    assert count(12345, "image") == "12,345 images"
