"""What a model file says of itself, in JSON: nothing that would differ if the same fit were made again."""

from typing import TYPE_CHECKING, TypedDict

import torch

from normscope import __version__
from normscope.calibration import Calibration
from normscope.images.store import Store
from normscope.settings import JSON, to_json
from normscope.training.loop import Outcome, Plan

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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


def data_of(normal: Store, training: Store, anomalies: Store | None, skipped: int) -> Data:
    return {
        "images": len(normal),
        "trained_on": len(training),
        "skipped": skipped,
        "anomalies": len(anomalies) if anomalies else 0,
        "grey": normal.grey,
        "sha256": normal.sha256,
    }


def training_of(plan: Plan, budget: float | None, outcome: Outcome) -> Training:
    return {
        "seed": plan.seed,
        "epochs": plan.epochs,
        "budget": budget,
        "steps": outcome.steps,
        "device": str(plan.device),
        "health": outcome.health,
    }


def make_card(
    method: str,
    settings: "DataclassInstance",
    calibration: Calibration | None,
    size: int,
    data: Data,
    training: Training,
) -> Card:
    return {
        "method": method,
        "settings": to_json(settings),
        "preprocessing": {"channels": 3, "size": size, "resize": "squashed to a square", "range": [-1, 1]},
        "calibration": calibration.pack()[1] if calibration else None,
        "data": data,
        "training": training,
        "normscope": __version__,
        "torch": torch.__version__,
    }
