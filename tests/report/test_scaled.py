"""Which methods have heat maps that a report may show."""

import numpy as np
import pytest

from normscope import Detector
from normscope.methods import find, method_names

SCALED = [name for name in method_names() if find(name).scaled_heat]
SMALL = {"surprisal": {"width": 16, "depth": 1}, "base": {}, "extension": {}, "pretrained": {"side": 96}}


def images(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.clip(120 + 60 * np.sin(np.arange(32) / 3) + rng.normal(0, 12, (n, 32, 32)), 0, 255).astype(np.uint8)


def test_what_has_a_scale_has_heat_maps():
    assert {"surprisal", "pretrained", "base", "extension"} == set(SCALED)
    assert all(find(name).explains for name in SCALED)


@pytest.mark.parametrize("name", SCALED)
def test_normal_images_stay_below_1_and_a_patch_does_not(name):
    detector = Detector(name, settings=SMALL[name], epochs=0, false_alarm_rate=None).fit(
        images(60, 0), allow_collapse=True
    )
    new = images(30, 1)
    assert (detector.explain(new).max((1, 2)) < 1).mean() > 0.8  # of so few, 99 of 100 is known roughly
    new[:, 4:14, 4:14] = 255
    assert (detector.explain(new).max((1, 2)) > 1).mean() > 0.9
