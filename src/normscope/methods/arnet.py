"""ARNet: Ye et al. 2020, Attribute Restoration Framework for Anomaly Detection (arXiv 1911.10676, first as ITAE)."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer

from normscope.errors import SettingError
from normscope.networks.unet import UNet
from normscope.training.data_parallel import data_parallel
from normscope.training.device import full_precision
from normscope.training.method import Batch, Batches, Method, Phase, Record, Reference
from normscope.training.steps import update
from normscope.views.shifts import rotations


@dataclass(frozen=True)
class Settings:
    """One re-implementer's for CIFAR-10; on MNIST these are flip=0, epochs=500."""

    width: int = 64
    flip: float = 0.5
    learning_rate: float = 0.1
    epochs: int = 125
    batch_size: int = 32


class ARNet(Method):
    """ARNet: a U-Net restores images whose colour and orientation were erased; score = restoration error.

    Ye et al. 2020. An image is made grey and turned by 0, 90, 180 or 270 degrees; the network is to return the
    original, upright and in colour (mean squared error). Score: mean absolute error for each of the four rotations,
    divided by that of the training images in this rotation, averaged over the four.

    No official code was found. Every figure is that of an unofficial re-implementation: layers, skip connections, SGD
    with rate 0.1 halved after every tenth of training, epochs and batch size, squared error in training against
    absolute in the score. It keeps the epoch that is best on the test set; this is the last one.
    """

    scores_quickly = False
    explains = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        if not 0 <= settings.flip <= 1:
            raise SettingError(f"flip is {settings.flip}; give the share of images to mirror, from 0 to 1")
        if settings.batch_size < 2:
            raise SettingError(f"batch_size is {settings.batch_size}; batch norm needs 2 or more")
        self.network = UNet(1, shape[0], settings.width)

    def phases(self) -> list[Phase]:
        return [Phase("train", self.settings.epochs, self.settings.batch_size, halving)]

    def optimizers(self, phase: str) -> Mapping[str, Optimizer]:
        return {"network": SGD(self.parameters(), self.settings.learning_rate)}

    def step(self, batch: Batch, optimizers: Mapping[str, Optimizer], progress: float) -> Record:
        images = batch.normal
        mirrored = (torch.rand(len(images), 1, 1, 1) < self.settings.flip).to(images.device)
        images = torch.where(mirrored, images.flip(3), images)
        turns = torch.randint(4, (len(images),)).to(images.device)
        erased = torch.stack(erasures(images), 1)[torch.arange(len(images), device=images.device), turns]
        restored = data_parallel(self.network, erased.contiguous(memory_format=torch.channels_last))
        with full_precision(images.device):
            loss = (restored.float() - images).square().mean()
        update(optimizers["network"], loss)
        return {"loss": loss}

    def errors(self, images: Tensor) -> Tensor:
        """Absolute error of each pixel, averaged over channels, for each rotation: [n, 4, h, w]."""
        return torch.stack([(self.network(x) - images).abs().mean(1) for x in erasures(images)], 1)

    def finish(self, batches: Batches) -> Reference:
        n, total = 0, torch.zeros(4)
        for images in batches:
            n, total = n + len(images), total.to(images) + self.errors(images).mean((2, 3)).sum(0)
        return {"usual": (total / n).clamp(min=1e-6)}

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        return self.explain(images, reference).mean((1, 2))

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """The score of each pixel; their mean is the score of the image."""
        return (self.errors(images) / reference["usual"][:, None, None]).mean(1)


def erasures(images: Tensor) -> list[Tensor]:
    """[n, 1, h, w], the mean over channels, in each of the four rotations."""
    return rotations(images.mean(1, keepdim=True))


def halving(progress: float) -> float:
    return 0.5 ** int(10 * progress)
