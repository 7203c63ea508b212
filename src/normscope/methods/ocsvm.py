"""A control: a one-class support vector machine on pixels."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from sklearn.svm import OneClassSVM
from torch import Tensor

from normscope.errors import SettingError
from normscope.scoring.reservoir import sampled
from normscope.training.method import Batches, Method, Reference

MOST_IMAGES, MOST_VALUES = 5000, 2**27  # the first as in GeoTrans's code; the second takes half a gigabyte


@dataclass(frozen=True)
class Settings:
    """The published comparisons choose gamma, and GeoTrans's also nu, by test labels; these are chosen without."""

    nu: float = 0.1
    gamma: float | Literal["diameter", "scale"] = "diameter"


class OCSVM(Method):
    """Control without learning: one-class support vector machine on pixels; score = distance outside its boundary.

    Schölkopf et al. 2001 with k(a, b) = exp(−gamma·‖a − b‖²): score = offset − Σ_i coefficient_i·k(x, support_i).
    `nu` bounds the share of training images outside; 0.1 starts the grid of GeoTrans (Golan & El-Yaniv 2018), Deep SVDD
    (Ruff et al. 2018) leaves it to the caller. `gamma`: diameter is 1 / (largest distance between training images)²,
    which Deep SVDD's code takes when it does not search with labels; scale is scikit-learn's 1 / (d · variance of the
    pixels). Deep SVDD first normalises contrast and keeps 95 % of the variance; here, as in GeoTrans, it is the pixels.
    Of more than 5,000 images (682 at 256 pixels) as many are drawn at random.
    """

    rectangles = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        s = settings
        if not 0 < s.nu < 1:
            raise SettingError(f"nu is {s.nu}; give a share above 0 and below 1")
        if not isinstance(s.gamma, str) and s.gamma <= 0:
            raise SettingError(f"gamma is {s.gamma}; give a number above 0, diameter or scale")

    def finish(self, batches: Batches) -> Reference:
        x = sampled((images.flatten(1) for images in batches), min(MOST_IMAGES, MOST_VALUES // math.prod(self.shape)))
        distances = squared_distances(x, x)
        gamma = self.gamma(x, distances)
        kernel = distances.mul_(-gamma).exp_().cpu().numpy()
        machine = OneClassSVM(kernel="precomputed", nu=self.settings.nu)
        machine.random_state = 0  # it draws a seed that it makes no use of; not from the caller's generator
        machine.fit(kernel)
        return {
            "support": x[torch.from_numpy(machine.support_).long().to(x.device)],
            "coefficients": torch.from_numpy(machine.dual_coef_[0]).to(x.device),
            "offset": torch.from_numpy(machine.offset_).to(x.device),
            "gamma": torch.tensor(gamma, dtype=torch.float64, device=x.device),
        }

    def gamma(self, x: Tensor, distances: Tensor) -> float:
        """As in scikit-learn 1 where images do not differ, so that there is no width to measure."""
        if self.settings.gamma == "diameter":
            return 1 / (float(distances.max()) or 1.0)
        if self.settings.gamma == "scale":
            return 1 / (x.shape[1] * float(x.double().var(correction=0)) or 1.0)
        return self.settings.gamma

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        kernel = (-reference["gamma"] * squared_distances(images.flatten(1), reference["support"])).exp()
        return reference["offset"] - kernel @ reference["coefficients"]


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """[n, d], [m, d] → [n, m], in float64: near distances are differences of numbers that are nearly equal."""
    b = b.double()
    square = b.square().sum(1)
    parts = [
        (part.square().sum(1)[:, None] + square).addmm_(part, b.T, alpha=-2)
        for part in map(Tensor.double, a.split(512))
    ]
    return torch.cat(parts).clamp_(min=0)
