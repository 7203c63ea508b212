"""The OpenVINO files: the graph in .xml, with texts about it and a checksum of both files, its weights in .bin."""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from normscope.errors import ExportError, ModelFileError
from normscope.export.exported_file import OUTPUTS, TEXTS, Built, Opened, Run, read_limited, sha256
from normscope.export.install import needed
from normscope.files import write_atomically

if TYPE_CHECKING:
    import onnx
    import openvino

SECTION = "normscope"  # of OpenVINO's notes on a model


def build(proto: "onnx.ModelProto") -> Built:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graph.onnx"
        file.write_bytes(proto.SerializeToString())
        model = needed("openvino").Core().read_model(file)  # convert_model would do the same, and report it to Intel
    try:
        return Built(runner(model), partial(write, model))
    except RuntimeError as error:
        reason = str(error).strip().rpartition("\n")[2]
        raise ExportError(f"OpenVINO cannot run the graph ({reason}); export to onnx") from error


def runner(model: "openvino.Model") -> Run:
    """In full precision: OpenVINO would compute in bfloat16 where the processor can, and scores would differ."""
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": torch.get_num_threads()}
    compiled = needed("openvino").compile_model(model, "CPU", options)
    known = {name for one in compiled.outputs for name in one.get_names()}  # an output has several names
    names = [name for name in OUTPUTS if name in known]

    def run(pixels):  # type: ignore[no-untyped-def]
        outputs = compiled(pixels)
        return {name: outputs[name].copy() for name in names}

    return run


def write(model: "openvino.Model", path: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        model.set_rt_info(text, [SECTION, name])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graph.xml"
        needed("openvino").save_model(model, file, compress_to_fp16=False)
        graph, weights = file.read_bytes(), file.with_suffix(".bin").read_bytes()
    write_atomically(path.with_suffix(".bin"), weights)
    write_atomically(path, graph + ending(sha256(graph, weights)))


def ending(checksum: str) -> bytes:
    return f"\n<!-- sha256 {checksum} -->\n".encode()


def read(path: Path) -> Opened:
    data, weights = read_limited(path), read_limited(path.with_suffix(".bin"))
    length = len(ending(sha256()))
    checksum = sha256(data[:-length], weights)
    if data[-length:] != ending(checksum):
        raise ModelFileError("its checksum is missing or does not fit")
    openvino = needed("openvino")
    model = openvino.Core().read_model(data, openvino.Tensor(np.frombuffer(weights, np.uint8)))
    texts = {name: model.get_rt_info([SECTION, name]).astype(str) for name in TEXTS}
    return Opened(runner(model), texts, checksum)
