"""Which engine scores a model's images: PyTorch, ONNX Runtime or OpenVINO, by a measurement that is kept on the disk.

Exporting takes as long as scoring some hundred photographs, so it is done where there are enough images to repay it,
and once for a model: the graph that won, and the times of all, stay in a folder of the user's cache.
"""

import hashlib
import itertools
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch

from normscope import __version__
from normscope.errors import ModelFileError, SettingError
from normscope.export.exported import Exported, checksum_of, open_model
from normscope.export.exporting import FORMATS, write_checked
from normscope.export.graph import to_onnx
from normscope.export.parity import generated
from normscope.files import write_text
from normscope.images import store
from normscope.model import Model

Engine = Literal["auto", "eager", "onnx", "openvino"]
NEEDS = {"onnx": ("onnx", "onnxscript", "onnxruntime"), "openvino": ("onnx", "onnxscript", "openvino")}
REPAYS_EXPORT = 300.0  # seconds of scoring with PyTorch: an export took 20 to 30 and saves a tenth of them
REPAYS_OPENING = 10.0
FASTER = 1.1  # times as fast as PyTorch; less may be noise
TOGETHER, TRIALS = 4, 3  # images that engines are timed with, and how often
WORTH_A_TRIAL = 10 * TOGETHER * TRIALS  # images: of fewer, the trial alone would be a tenth of the work
TIMES = "times.json"
KEPT = 8  # folders in the cache: a graph may have a hundred MB


def with_engine(model: Model, file: Path, images: int, engine: Engine, note: Callable[[str], None]) -> Model:
    """The model of this file, or with a graph in place of its method; scores agree to 0.001 of the normal spread.

    `auto` takes the fastest if so many images repay the trouble, and PyTorch, with a note, if anything goes wrong.
    """
    if engine == "eager":
        return model
    if engine != "auto":
        if reason := obstacle(model):
            raise SettingError(f"the engine {engine} cannot score with this model: {reason}; leave out --engine")
        return fastest(model, place(checksum_of(file), engine), [engine], note)
    formats = [one for one in FORMATS if all(map(find_spec, NEEDS[one]))]
    if not formats or images < WORTH_A_TRIAL or obstacle(model):
        return model
    folder = place(checksum_of(file), engine)
    if images * seconds_an_image(model) < (REPAYS_OPENING if folder.exists() else REPAYS_EXPORT):
        return model
    try:
        return fastest(model, folder, ["eager", *formats], note)
    except Exception as error:  # the libraries have many ways to fail, and PyTorch is always there
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        note(f"note: scoring with PyTorch, as no other engine could be used ({reason})")
        return model


def obstacle(model: Model) -> str | None:
    """Why no other engine than PyTorch can score with the model."""
    if isinstance(model.method, Exported):
        return "it is an exported graph already"
    if model.device.type != "cpu":
        return f"other engines run on the CPU, and the device is {model.device}"
    if model.method.explains_by_gradient:
        return "its heat maps take gradients"
    return model.method.export_obstacle()


def fastest(model: Model, folder: Path, engines: Sequence[str], note: Callable[[str], None]) -> Model:
    """The model with the fastest of these engines, from the folder or, the first time, into it."""
    with suppress(OSError, ValueError, LookupError, TypeError, ModelFileError):  # not there, or not as it was written
        return opened(model, folder)
    note("exporting the model to find the fastest engine for it; this is done once")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        taken = measured(model, engines, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    forget_oldest(folder.parent)
    note("ms an image: " + ", ".join(f"{engine} {1e3 * value:.0f}" for engine, value in taken.items()))
    return opened(model, folder)


def measured(model: Model, engines: Sequence[str], folder: Path) -> dict[str, float]:
    """Seconds an image of every engine; the graph of the fastest stays in the folder, and all times beside it.

    A graph that does not agree with the model is an error.
    """
    proto, taken = to_onnx(model), dict[str, float]()
    for engine in engines:
        if engine in FORMATS:
            write_checked(model, engine, proto, graph(folder, engine))
        taken[engine] = seconds_an_image(on_engine(model, folder, engine))
    best = min(taken, key=lambda engine: taken[engine] * (1 if engine in FORMATS else 1 / FASTER))
    for engine in FORMATS:
        if engine != best:
            for file in (graph(folder, engine), graph(folder, engine).with_suffix(".bin")):
                file.unlink(missing_ok=True)
    write_text(folder / TIMES, json.dumps({"engine": best, "seconds": taken}))
    return taken


def opened(model: Model, folder: Path) -> Model:
    """With the engine that `measured` found the fastest."""
    return on_engine(model, folder, json.loads((folder / TIMES).read_text())["engine"])


def on_engine(model: Model, folder: Path, engine: str) -> Model:
    """Only the method is another: calibration and card are the model's own."""
    if engine not in FORMATS:
        return model
    return replace(model, method=open_model(graph(folder, engine)).method, reference={})


def graph(folder: Path, engine: str) -> Path:
    return folder / f"graph{FORMATS[engine].suffix}"


def seconds_an_image(model: Model) -> float:
    """The least of a few trials: whatever disturbs one makes it longer."""
    pixels = store.from_arrays(generated(model.size)[:TOGETHER], model.size)
    taken = []
    for _ in range(TRIALS):
        began = time.perf_counter()
        model.scores(pixels)
        taken.append(time.perf_counter() - began)
    return min(taken) / TOGETHER


def place(checksum: str, engine: str) -> Path:
    """A folder for this model, on this machine, with these versions and threads."""
    packages = {
        name: version(name) for name in ("torch", *sorted({*itertools.chain(*NEEDS.values())})) if find_spec(name)
    }
    facts = [checksum, engine, __version__, packages, torch.get_num_threads(), platform.node(), platform.machine()]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "normscope" / "engines" / key


def forget_oldest(cache: Path) -> None:
    newest_first = sorted(cache.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
    for folder in newest_first[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
