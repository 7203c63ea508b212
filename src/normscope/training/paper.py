"""What the paper's two models share: the settings of their readings, encoder, optimisers, views and trade-off."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from normscope.networks import amdim
from normscope.networks.resnet import CodeResNet
from normscope.objective import Entropy, Information, Separation
from normscope.objective.cross_entropy import norm_margin
from normscope.objective.entropy import laplace
from normscope.objective.information import infonce
from normscope.objective.landscape import verdict
from normscope.objective.trade_off import Beta, ramp
from normscope.training.method import Phase, constant
from normscope.training.muon import muon_and_adamw
from normscope.training.schedules import warm_cosine
from normscope.views.augment import Recipe, amdim_views, random_view
from normscope.views.shifts import Shift, rotation

CODE = 1024  # the paper's size of a code
TOLD = 0.96  # share of views whose codes are longer than those of their shifted versions: enough of the third term


@dataclass(frozen=True)
class Reading(Recipe):
    """A reading of the paper. `preset=laptop`, the default, works in minutes and has the third term; `preset=paper` is
    the literal one, which leaves open batch size, views, the norm's scale, batch norm and initialisation.

    `code` auto is the size that goes with the encoder. `beta_unit` code gives β for codes of 1,024 entries: it is
    multiplied by √(code / 1024), which keeps the trade-off of the L1 norm at any size. `gamma=0` leaves the third term
    out, as the paper does; else it weighs how far `separation` keeps the codes of shifted views from those of views.
    With it, training ends after `least_steps` where views are told from shifted ones by then, and else after `epochs`.
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "paper": {
            "smallest_area": 0.3,
            "beta": 20.0,
            "beta_ramp": 0.0,
            "gamma": 0.0,
            "clip_scale": "size",
            "encoder": "small",
            "rectify": False,
            "optimizer": "adam",
            "learning_rate": 2e-4,
            "epochs": 400,
            "least_steps": 1,
            "batch_size": 64,
            "score": "ori",
        }
    }

    preset: Literal["laptop", "paper"] = "laptop"
    smallest_area: float = 0.8
    views: Literal["simclr", "amdim"] = "simclr"
    beta: Beta = 5.0
    beta_unit: Literal["one", "code"] = "one"
    beta_ramp: float = 0.2
    gamma: float = 2.0
    shift: Shift = rotation
    information: Information = infonce
    entropy: Entropy = laplace
    separation: Separation = norm_margin
    clip_scale: Literal["size", "root"] = "root"
    encoder: Literal["resnet", "small", "big", "medium", "slim", "tiny"] = "resnet"
    width: int = 24
    code: int | Literal["auto"] = "auto"
    rectify: bool = True
    output_norm: bool = False
    initialisation: Literal["kaiming", "zero"] = "kaiming"
    optimizer: Literal["muon", "adam"] = "muon"
    learning_rate: float = 3e-3
    convolution_rate: float = 2e-2
    weight_decay: float = 5e-4
    epochs: int = 12
    least_steps: int = 300
    batch_size: int = 32


Encoder = amdim.Amdim | CodeResNet


def make_encoder(reading: Reading, shape: tuple[int, int, int]) -> Encoder:
    code = None if reading.code == "auto" else reading.code
    if reading.encoder == "resnet":
        return CodeResNet(shape[0], reading.width, shape[-1], code or CODE, reading.rectify)
    return amdim.encoder(reading.encoder, shape[0], reading.output_norm, reading.initialisation, code, reading.rectify)


def make_projector(reading: Reading, encoder: Encoder) -> nn.Module:
    """Local map → codes of its locations: AMDIM's projector, or for a ResNet a head like that of its code."""
    d, code = encoder.local_channels, encoder.code_size
    if isinstance(encoder, CodeResNet):
        last = [nn.ReLU()] if reading.rectify else []
        return nn.Sequential(nn.Conv2d(d, d, 1), nn.BatchNorm2d(d), nn.ReLU(), nn.Conv2d(d, code, 1), *last)
    return amdim.LocalProjector(d, code, reading.output_norm, reading.initialisation, reading.rectify)


def clip_scale(reading: Reading, size: int) -> float:
    """The paper's c1 for codes of so many entries."""
    return float(size) ** (1.0 if reading.clip_scale == "size" else 0.5)


def beta_at(reading: Reading, size: int) -> Beta:
    if reading.beta == "auto" or reading.beta_unit == "one":
        return reading.beta
    return reading.beta * float(size / CODE) ** 0.5


def advice(reading: Reading, size: int) -> str | None:
    """Whether the objective has anything better than a collapse, by objective/landscape.py."""
    return verdict(reading.entropy, beta_at(reading, size), size, clip_scale(reading, size), reading.batch_size)


def signs_of_collapse(reading: Reading) -> Sequence[str]:
    """Images that look alike cannot be told apart; where the third term keeps codes alive, that is no collapse."""
    return ("spread",) if reading.gamma else ("information", "spread")


def phases(reading: Reading) -> list[Phase]:
    rate = constant if reading.optimizer == "adam" else warm_cosine
    enough = told if reading.gamma else None
    return [Phase("train", reading.epochs, reading.batch_size, rate, reading.least_steps, enough)]


def told(averages: Mapping[str, float]) -> bool:
    """Whether views are told from shifted ones by the length of their codes.

    Where that is easily learnt, as with clothes and digits, further training makes the norm a worse score; where it is
    not, as with photographs, a better one (docs/theory.md).
    """
    return averages["told"] >= TOLD


def optimizers(reading: Reading, parameters: Iterable[Tensor]) -> Mapping[str, Optimizer]:
    if reading.optimizer == "adam":
        return {"networks": Adam(parameters, reading.learning_rate)}
    return muon_and_adamw(parameters, reading.convolution_rate, reading.learning_rate, reading.weight_decay)


def views(reading: Reading, images: Tensor) -> tuple[Tensor, int]:
    """Two views of every image, 2N of them and how many, followed by their shifted versions if γ is not 0."""
    two = amdim_views(images) if reading.views == "amdim" else [random_view(images, reading) for _ in range(2)]
    x = torch.cat([*two])
    every = torch.cat([x, reading.shift(x)]) if reading.gamma else x
    return every.contiguous(memory_format=torch.channels_last), len(x)


def third_term(reading: Reading, codes: Tensor, shifted: Tensor, scale: float, progress: float) -> Mapping[str, Tensor]:
    """What γ adds to the loss, ramped like β, and what to record; norms count in units of √c1. Nothing without γ."""
    if not reading.gamma:
        return {}
    separation = reading.separation(codes / scale**0.5, shifted / scale**0.5)
    longer = codes.norm(dim=1) > shifted.norm(dim=1)
    loss = -reading.gamma * ramp(progress, reading.beta_ramp) * separation
    return {"loss": loss, "separation": separation, "told": longer.float().mean()}
