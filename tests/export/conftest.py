"""One model, exported once in each format."""

from pathlib import Path

import pytest

from normscope.export.exporting import FORMATS, texts
from normscope.export.graph import to_onnx
from normscope.export.parity import compare, generated
from normscope.model import load


@pytest.fixture(scope="session")
def exported(explaining, tmp_path_factory) -> dict[str, Path]:
    folder, model = tmp_path_factory.mktemp("exported"), load(explaining)
    files = {"onnx": folder / "model.onnx", "openvino": folder / "model.xml"}
    proto = to_onnx(model)
    for to, path in files.items():
        built = FORMATS[to].build(proto)
        built.write(path, texts(model, to, compare(model, built.run, generated(model.size))))
    return files


@pytest.fixture(params=["onnx", "openvino"])
def file(request, exported) -> Path:
    return exported[request.param]
