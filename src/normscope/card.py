"""What a model file says of itself, in JSON: nothing that would differ if the same fit were made again."""

from typing import TYPE_CHECKING, NotRequired, TypedDict

import torch

from normscope import __version__
from normscope.calibration import Calibration
from normscope.images.size import Size, typical_aspect_ratio
from normscope.images.store import Store
from normscope.settings import JSON, to_json
from normscope.training.loop import Outcome, Plan

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


RESIZE = "the whole image to this height and width, whatever its aspect ratio"


class Preprocessing(TypedDict):
    channels: int
    size: list[int]  # height and width
    resize: str
    range: list[int]


class Data(TypedDict):
    images: int
    trained_on: int
    skipped: int
    anomalies: int
    excluded: int
    grey: bool
    aspect_ratio: float  # typical width / height, before images are resized
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
    chosen: str | None  # why this method, where the choice was left to us
    summary: str | None  # what the method says of its reference
    settings: dict[str, JSON]
    preprocessing: Preprocessing
    calibration: dict[str, JSON] | None
    data: Data
    training: Training
    normscope: str
    torch: str
    export: NotRequired[dict[str, JSON]]  # of an exported file: how to feed it, and how far from the model it is


def data_of(normal: Store, training: Store, anomalies: Store | None, skipped: int, excluded: int) -> Data:
    return {
        "images": len(normal),
        "trained_on": len(training),
        "skipped": skipped,
        "anomalies": len(anomalies) if anomalies else 0,
        "excluded": excluded,
        "grey": normal.grey,
        "aspect_ratio": round(typical_aspect_ratio(normal.shapes), 4),
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
    chosen: str | None,
    summary: str | None,
    settings: "DataclassInstance",
    calibration: Calibration | None,
    size: Size,
    data: Data,
    training: Training,
) -> Card:
    return {
        "method": method,
        "chosen": chosen,
        "summary": summary,
        "settings": to_json(settings),
        "preprocessing": {"channels": 3, "size": list(size), "resize": RESIZE, "range": [-1, 1]},
        "calibration": calibration.pack()[1] if calibration else None,
        "data": data,
        "training": training,
        "normscope": __version__,
        "torch": torch.__version__,
    }


def size_of(card: Card) -> Size:
    height, width = card["preprocessing"]["size"]
    return height, width
