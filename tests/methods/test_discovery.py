"""Adding a method is adding a file: nothing registers it by hand."""

import re
from pathlib import Path

import numpy as np

import normscope
from normscope import Detector, load, methods
from normscope.methods import method_names

SOURCE = Path(normscope.__file__).parent
PAPER = {"vae", "deep-svdd", "anogan", "adgan", "ganomaly", "ocgan", "geotrans", "arnet", "dagmm", "dsebm"}
RELATED = {"autoencoder", "deep-sad", "ocsvm", "pca"}
NEW = '''
"""How bright an image is."""

from dataclasses import dataclass

from normscope.training.method import Method


@dataclass(frozen=True)
class Settings:
    pass


class BrightSide(Method):
    """Score = the mean of the pixels."""

    def score(self, images, reference):
        return images.mean((1, 2, 3))
'''


def test_all_that_the_paper_compares_with_and_is_related_to_are_there():
    assert set(method_names()) >= PAPER | RELATED


def test_a_file_is_all_it_takes(tmp_path, monkeypatch):
    (tmp_path / "bright_side.py").write_text(NEW)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    assert "bright-side" in method_names()
    images = np.random.default_rng(0).integers(0, 256, (20, 28, 28), dtype=np.uint8)
    detector = Detector("bright-side", false_alarm_rate=0.2).fit(images)
    dark, bright = np.zeros((1, 28, 28), np.uint8), np.full((1, 28, 28), 255, np.uint8)
    assert detector.score(dark)[0] < detector.score(bright)[0]
    detector.save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").score(bright) == detector.score(bright)


def test_no_other_code_names_a_method():
    """But for the paper's figures, which are data. That methods do not know each other, tests/test_layers.py checks."""
    word = re.compile(rf"[\"']({'|'.join(PAPER | RELATED)})[\"']")
    others = [path for path in SOURCE.rglob("*.py") if path.parent.name != "methods" and word.search(path.read_text())]
    assert [str(path.relative_to(SOURCE)) for path in others] == []
