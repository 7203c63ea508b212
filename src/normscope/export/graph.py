"""A fitted model as one graph, from decoded images to verdicts, and its ONNX form."""

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from normscope import __version__
from normscope.errors import ExportError
from normscope.export.install import needed
from normscope.export.rewrites import Rewrites
from normscope.model import Model

if TYPE_CHECKING:
    import onnx

INPUT = "images"
OPSET = 18
MOST_TOGETHER = 2**16  # images in a batch


class Graph(nn.Module):
    """uint8 images [n, h, w, 3] of the model's size → `score` [n], `p_value` [n] and `anomalous` [n] if the model is
    calibrated, `heat_map` [n, h', w'] if its method explains."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.method, self.reference, self.calibration = model.method, dict(model.reference), model.calibration
        self.explains = self.method.explains and not self.method.explains_by_gradient
        self.rewrites = Rewrites()

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        with self.rewrites:
            encoded = self.method.encode(images.permute(0, 3, 1, 2).float() / 127.5 - 1)  # as training.batches.to_float
            if not self.explains:
                return self.verdicts(self.method.score(encoded, self.reference))
            score, heat = self.method.judge(encoded, self.reference)
        return {**self.verdicts(score), "heat_map": heat.float()}

    def verdicts(self, score: Tensor) -> dict[str, Tensor]:
        """The score and, as `Calibration.p_values` and `.anomalous`, what it means."""
        known, exact = self.calibration, score.double()
        if known is None:
            return {"score": score.float()}
        reached = (torch.tensor(known.scores) >= exact[:, None]).long().sum(1)
        p_value = (1 + reached).float() / (len(known.scores) + 1)
        return {"score": score.float(), "p_value": p_value, "anomalous": exact > known.threshold}


def to_onnx(model: Model) -> "onnx.ModelProto":
    """The graph of a model, with its weights."""
    for module in ("onnx", "onnxscript"):
        needed(module)
    if reason := model.method.export_obstacle():
        raise ExportError(f"the method {model.card['method']} cannot be exported: {reason}")
    graph, example = Graph(model).eval(), torch.zeros(3, *model.size, 3, dtype=torch.uint8)
    with torch.no_grad(), quiet():
        names = [*graph(example)]
        graph.rewrites.end_recording()
        program = traced(graph, example, names, model.card["method"])
    assert program is not None
    return tidied(program.model_proto)


def traced(graph: Graph, example: Tensor, names: list[str], method: str) -> "torch.onnx.ONNXProgram | None":
    try:
        return torch.onnx.export(
            graph,
            (example,),
            dynamo=True,
            input_names=[INPUT],
            output_names=names,
            dynamic_shapes=({0: torch.export.Dim("n", min=1, max=MOST_TOGETHER)},),
            opset_version=OPSET,
            external_data=False,
            verbose=False,
        )
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).partition("\n")[0]
        raise ExportError(f"the method {method} cannot be exported with these settings ({reason})") from error


@contextmanager
def quiet() -> Iterator[None]:
    """The exporter warns of packages that it could make use of, and of its own future."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def tidied(proto: "onnx.ModelProto") -> "onnx.ModelProto":
    """Without the exporter's notes on where in the source each operation comes from."""
    for part in (proto.graph, *proto.graph.node, *proto.graph.value_info, *proto.graph.input, *proto.graph.output):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    proto.ClearField("metadata_props")
    proto.producer_name, proto.producer_version = "normscope", __version__
    return proto
