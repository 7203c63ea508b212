"""A control: the surprisal of features from an encoder that was never trained."""

from dataclasses import dataclass

import torch
from torch import Tensor

from normscope.networks.resnet import ResNet, layout
from normscope.scoring.surprisal import fit_gaussian, gaussian
from normscope.training.method import Batches, Method, Reference


@dataclass(frozen=True)
class Settings:
    width: int = 16
    depth: int = 1


class RandomEncoder(Method):
    """Control without learning: surprisal (Mahalanobis distance) of the features of an untrained ResNet."""

    rectangles = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        self.encoder = ResNet(shape[0], settings.width, settings.depth, min(shape[1:]))

    def finish(self, batches: Batches) -> Reference:
        return fit_gaussian(torch.cat([layout(self.encoder.stages(images)) for images in batches]))

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        return gaussian(layout(self.encoder.stages(images)), reference)
