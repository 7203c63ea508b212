"""An exported file as a model: what scores, reports and serves models takes it for one of its own."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from normscope import artifact
from normscope.calibration import Calibration, Kind
from normscope.card import Card, size_of
from normscope.errors import ModelFileError, SettingError
from normscope.export.exported_file import Opened, Run, refusals
from normscope.export.exporting import FORMAT, FORMATS
from normscope.images.size import Size
from normscope.methods import find
from normscope.model import Model, check_reference, load
from normscope.training.method import Method, Reference

PIXELS = 2**20  # of the images that go through the graph at once, to save memory


@dataclass(frozen=True)
class NoSettings:
    """Those of the method are part of the graph."""


class Exported(Method):
    """A graph as a method: `encode` runs it; score and heat map, one after the other, are all it gives."""

    def __init__(self, run: Run, size: Size, method: str) -> None:
        super().__init__(NoSettings(), (3, *size))
        self.run = run
        trial = run(np.zeros((1, *size, 3), np.uint8))
        self.explains = "heat_map" in trial
        self.scaled_heat = self.explains and find(method).scaled_heat
        self.grid = trial["heat_map"].shape[1:] if self.explains else (0, 0)

    def encode(self, images: Tensor) -> Tensor:
        """[n, 1 + h'·w'], from images in [-1, 1], whose grey levels are whole numbers again."""
        pixels = ((images + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
        few = max(1, PIXELS // math.prod(self.shape[1:]))
        return torch.cat([self.outputs(part) for part in pixels.split(few)])

    def outputs(self, pixels: Tensor) -> Tensor:
        found = self.run(pixels.numpy())
        score = torch.from_numpy(found["score"])[:, None]
        return torch.cat([score, torch.from_numpy(found["heat_map"]).flatten(1)], 1) if self.explains else score

    def score(self, encoded: Tensor, reference: Reference) -> Tensor:
        return encoded[:, 0]

    def explain(self, encoded: Tensor, reference: Reference) -> Tensor:
        return encoded[:, 1:].unflatten(1, self.grid)


def is_exported(path: Path) -> bool:
    return path.suffix in {one.suffix for one in FORMATS.values()}


def open_model(path: Path, *, device: str = "auto") -> Model:
    """The model in a file of `normscope fit` or of `normscope export`, whichever its suffix tells."""
    if not is_exported(path):
        return load(path, device=device)
    if device not in ("auto", "cpu"):
        raise SettingError(f"an exported model runs on the CPU; leave out the device {device!r}")
    with refusals(path):
        return from_opened(opened(path))


def read_card(path: Path) -> tuple[Card, str]:
    """Card and checksum, verified."""
    if not is_exported(path):
        card, checksum = artifact.read_card(path)
        return cast(Card, card), checksum
    with refusals(path):
        file = opened(path)
        return card_of(file), file.checksum


def checksum_of(path: Path) -> str:
    """Of a file that was opened before."""
    return read_card(path)[1] if is_exported(path) else artifact.read_header(path)[1].checksum


def opened(path: Path) -> Opened:
    (read,) = (one.read for one in FORMATS.values() if one.suffix == path.suffix)
    file = read(path)
    if file.texts.get("normscope") != FORMAT:
        raise ModelFileError(f"it has format {str(file.texts.get('normscope'))[:20]!r}, not {FORMAT!r}")
    return file


def card_of(file: Opened) -> Card:
    return cast(Card, artifact.from_text(file.texts["card"]))


def from_opened(file: Opened) -> Model:
    card, scores = card_of(file), json.loads(file.texts["calibration"])
    known = card["calibration"]
    calibration = None
    if known:
        calibration = Calibration(np.array(scores, np.float64), cast(float, known["rate"]), cast(Kind, known["kind"]))
    method = Exported(file.run, size_of(card), card["method"]).eval()
    model = Model(method, {}, calibration, card, torch.device("cpu"))
    check_reference(model)
    return model
