"""Model → file, by way of a comparison of the two."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from normscope import artifact
from normscope.errors import ExportError, SettingError
from normscope.export import onnx_file, openvino_file
from normscope.export.exported_file import TEXTS, Built, Opened, Pixels
from normscope.export.graph import INPUT, to_onnx
from normscope.export.parity import TOLERANCE, Parity, compare, generated
from normscope.model import Model
from normscope.settings import JSON
from normscope.training.observer import Observer

if TYPE_CHECKING:
    import onnx

FORMAT = "1"
DECODING = (
    "RGB, upright by its EXIF orientation, transparency over white, 16 bits scaled to 8; resized to the size by "
    "Pillow's BILINEAR filter (antialiased), nothing cropped"
)


class Format(NamedTuple):
    suffix: str
    build: Callable[..., Built]
    read: Callable[[Path], Opened]


FORMATS = {
    "onnx": Format(".onnx", onnx_file.build, onnx_file.read),
    "openvino": Format(".xml", openvino_file.build, openvino_file.read),
}


def check_target(to: str, path: Path) -> None:
    """Raise unless the format is known and the name of the file has its suffix, by which it is recognised later."""
    if to not in FORMATS:
        raise SettingError(f"no format {to!r}; choose from {', '.join(FORMATS)}")
    if path.suffix != FORMATS[to].suffix:
        raise SettingError(f"{path} does not end in {FORMATS[to].suffix}, as files for {to} do; give it that name")


def export(model: Model, to: str, path: Path, images: Pixels | None = None, observer: Observer | None = None) -> Parity:
    """Write the file, unless graph and model disagree on generated images and on `images` [n, h, w, 3]."""
    check_target(to, path)
    stage = partial((observer or Observer()).parts, of=3)
    stage("tracing", 0)
    return write_checked(model, to, to_onnx(model), path, images, stage)


def write_checked(
    model: Model,
    to: str,
    proto: "onnx.ModelProto",
    path: Path,
    images: Pixels | None = None,
    stage: Callable[[str, int], None] = lambda doing, done: None,
) -> Parity:
    """As `export`, of a graph that is there already."""
    stage("compiling", 1)
    built = FORMATS[to].build(proto)
    stage("comparing", 2)
    samples = generated(model.size)
    parity = compare(model, built.run, samples if images is None else np.concatenate([samples, images]))
    stage("writing", 3)
    try:
        built.write(path, texts(model, to, parity))
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error.strerror}; choose a folder that has room") from error
    return parity


def texts(model: Model, to: str, parity: Parity) -> dict[str, str]:
    """What the file says of itself: the card, with how to feed the graph and the parity, and the calibration scores."""
    exported: dict[str, JSON] = {
        "format": to,
        "input": f"{INPUT}: uint8 [n, height, width, 3]",
        "decoding": DECODING,
        "tolerance": TOLERANCE,
        "parity": parity._asdict(),
    }
    card = {**cast(dict[str, JSON], model.card), "export": exported}
    scores = model.calibration.scores.tolist() if model.calibration else None
    return dict(zip(TEXTS, (FORMAT, artifact.to_text(card), json.dumps(scores)), strict=True))
