"""The ONNX file: the graph, texts about it in its metadata, and a checksum at its end."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from normscope.errors import ModelFileError
from normscope.export.exported_file import Built, Opened, Run, read_limited, sha256
from normscope.export.install import needed
from normscope.files import write_atomically

if TYPE_CHECKING:
    import onnx

CHECKSUM = "sha256"
QUIET = 3  # onnxruntime's level of errors


def build(proto: "onnx.ModelProto") -> Built:
    return Built(runner(proto.SerializeToString()), partial(write, proto))


def runner(data: bytes) -> Run:
    runtime = needed("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = QUIET, torch.get_num_threads()
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names, (given,) = [one.name for one in session.get_outputs()], session.get_inputs()
    return lambda pixels: dict(zip(names, session.run(names, {given.name: pixels}), strict=True))


def write(proto: "onnx.ModelProto", path: Path, texts: Mapping[str, str]) -> None:
    onnx = needed("onnx")
    onnx.helper.set_model_props(proto, dict(texts))
    body = proto.SerializeToString()
    write_atomically(path, body + ending(sha256(body)))


def ending(checksum: str) -> bytes:
    """One more entry of the metadata: messages of protobuf that are put one after the other are one message."""
    onnx = needed("onnx")
    last = onnx.ModelProto()
    onnx.helper.set_model_props(last, {CHECKSUM: checksum})
    return bytes(last.SerializeToString())


def read(path: Path) -> Opened:
    data = read_limited(path)
    length = len(ending(sha256()))
    checksum = sha256(data[:-length])
    if data[-length:] != ending(checksum):
        raise ModelFileError("its checksum is missing or does not fit")
    proto = needed("onnx").load_from_string(data)
    check(proto)
    return Opened(runner(data), {one.key: one.value for one in proto.metadata_props}, checksum)


def check(proto: "onnx.ModelProto") -> None:
    """Raise if the graph reads other files, loops, or has operations of its own: ours never does."""
    onnx = needed("onnx")
    if proto.functions or any(node.domain not in ("", "ai.onnx") for node in proto.graph.node):
        raise ModelFileError("it has operations that are not part of ONNX")
    if any(one.HasField("g") or one.graphs for node in proto.graph.node for one in node.attribute):
        raise ModelFileError("it has loops or branches")
    if any(one.data_location == onnx.TensorProto.EXTERNAL for one in tensors(proto)):
        raise ModelFileError("it refers to other files")


def tensors(proto: "onnx.ModelProto") -> "Iterator[onnx.TensorProto]":
    yield from proto.graph.initializer
    for sparse in proto.graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in proto.graph.node:
        for one in node.attribute:
            yield from (one.t, *one.tensors, one.sparse_tensor.values, one.sparse_tensor.indices)
