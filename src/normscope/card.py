"""What a model file says of itself, in JSON."""

from typing import TypedDict

from normscope.settings import JSON


class Preprocessing(TypedDict):
    channels: int
    size: int
    resize: str
    range: list[int]


class Data(TypedDict):
    images: int
    trained_on: int
    skipped: int
    anomalies: int
    grey: bool
    sha256: str


class Training(TypedDict):
    seed: int
    epochs: int | None
    budget: float | None
    steps: int
    seconds: float
    device: str
    health: str


class Card(TypedDict):
    method: str
    settings: dict[str, JSON]
    preprocessing: Preprocessing
    calibration: dict[str, JSON] | None
    data: Data
    training: Training
    normscope: str
    torch: str
    created: str
