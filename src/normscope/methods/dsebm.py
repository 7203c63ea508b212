"""A deep structured energy-based model, trained by denoising."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from normscope.errors import SettingError
from normscope.networks.convolutional import encoder
from normscope.training.data_parallel import data_parallel
from normscope.training.device import full_precision
from normscope.training.method import Batch, Method, Phase, Record, Reference
from normscope.training.steps import update


@dataclass(frozen=True)
class Settings:
    """The values of GeoTrans's code (Golan & El-Yaniv 2018), whose results are in the paper's table; Keras's Adam."""

    noise: float = 0.5
    score: Literal["energy", "reconstruction"] = "energy"
    width: int = 64
    hidden: int = 256
    learning_rate: float = 1e-3
    epochs: int = 200
    batch_size: int = 128


class DSEBM(Method):
    """Deep structured energy-based model (Zhai et al. 2016), trained by denoising; score = energy of the image.

    E(x) = ½‖x − b‖² − Σ_j h_j(x), with a trained image b and an encoder h that ends in ReLU. Its reconstruction is r(x)
    = x − ∇E(x) = b + ∇Σ_j h_j(x); loss = mean squared error of r(x + noise) and x, by double back-propagation. The
    network and all settings are those of GeoTrans's code; the original's were not verified. Where ReLU ends it, ∇h says
    nothing of biases, so they are hardly trained. `score` reconstruction is ‖x − r(x)‖², the other one of the paper.
    """

    explains = True
    explains_by_gradient = True
    has_codes = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        if settings.noise < 0:
            raise SettingError(f"noise is {settings.noise}; give a standard deviation of 0 or more")
        self.encoder = encoder(shape[0], settings.width, shape[-1], settings.hidden)
        self.bias = nn.Parameter(torch.zeros(shape))

    def export_obstacle(self) -> str | None:
        return (
            "score=reconstruction takes a gradient for each image" if self.settings.score == "reconstruction" else None
        )

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, self.settings.batch_size)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        return {"energy": Adam(self.parameters(), self.settings.learning_rate)}

    def code(self, images: Tensor) -> Tensor:
        """h(x), [n, hidden]."""
        return F.relu(self.encoder(images))

    def reconstruct(self, images: Tensor, training: bool = False) -> Tensor:
        """b + ∇Σh. In training mode batch norm lets images of a batch have a say in each other's gradient, as coded."""
        with torch.inference_mode(False), torch.enable_grad():
            x = images.detach().clone().requires_grad_()
            (gradient,) = torch.autograd.grad(data_parallel(self.code, x).float().sum(), x, create_graph=training)
            return self.bias + gradient if training else (self.bias + gradient).detach()

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        with full_precision(images.device):  # a gradient of a gradient is too fine for bfloat16
            noisy = images + self.settings.noise * torch.randn_like(images)
            loss = F.mse_loss(self.reconstruct(noisy, training=True), images)
            update(optimizers["energy"], loss)
        return {"loss": loss}

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        if self.settings.score == "reconstruction":
            return (images - self.reconstruct(images)).square().sum((1, 2, 3))
        return 0.5 * (images - self.bias).square().sum((1, 2, 3)) - self.code(images).sum(1)

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """Squared error of each pixel after reconstruction, mean over channels."""
        return (images - self.reconstruct(images)).square().mean(1)
