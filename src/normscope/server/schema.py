"""What goes in and out, for validation and for /openapi.json."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel

__all__ = ["FILES", "Description", "DriftState", "ErrorAnswer", "InferRequest", "Recent", "ScoredRow", "Tensor"]

FILES = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
                    },
                }
            }
        },
    }
}


class ErrorAnswer(BaseModel):
    error: str


class ScoredRow(BaseModel):
    """As on the command line."""

    path: str
    score: float | None
    p_value: float | None
    p_estimate: float | None
    anomalous: bool | None
    error: str | None
    picture: str | None = None
    heatmap: str | None = None


class Recent(ScoredRow):
    time: str
    model: str


class ModelDescription(BaseModel):
    name: str
    words: dict[str, str]
    promise: str | None
    note: str | None
    threshold: float | None
    heatmaps: bool
    card: dict[str, object]


class DriftState(BaseModel):
    model: str
    images: int  # scored since the server started
    flagged: float  # share of the latest, about twenty of them
    message: str | None  # a sentence once normal has moved


class LimitValues(BaseModel):
    body: int
    pixels: int
    seconds: float
    queued: int
    history: int


class Description(BaseModel):
    models: list[ModelDescription]
    limits: LimitValues
    suffixes: list[str]
    version: str


class TensorDescription(BaseModel):
    """Of the Open Inference Protocol, as all that follow; −1 stands for any number."""

    name: str
    datatype: str
    shape: list[int]


class Tensor(TensorDescription):
    data: Sequence[object]


class Input(Tensor):
    datatype: Literal["BYTES", "UINT8"]


class Output(BaseModel):
    name: str


def encodable(text: str) -> str:
    text.encode()  # a UnicodeEncodeError, and so a refusal, for lone surrogates
    return text


class InferRequest(BaseModel):
    id: Annotated[str, AfterValidator(encodable)] | None = None
    inputs: list[Input]
    outputs: list[Output] | None = None


class InferAnswer(BaseModel):
    model_name: str
    id: str | None = None
    outputs: list[Tensor]


class Live(BaseModel):
    live: bool


class Ready(BaseModel):
    ready: bool


class Metadata(BaseModel):
    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorDescription]
    outputs: list[TensorDescription]


class ServerMetadata(BaseModel):
    name: str
    version: str
    extensions: list[str]
