"""A control: nearest neighbours on pixels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from normscope.scoring.neighbours import neighbours
from normscope.training.method import Batches, Method, Reference


@dataclass(frozen=True)
class Settings:
    """Five neighbours, as in the measured prototype."""

    k: int = 5


class KNN(Method):
    """Control without learning: mean distance of the pixels to those of the k nearest training images."""

    rectangles = True
    settings: Settings

    def finish(self, batches: Batches) -> Reference:
        return {"pixels": torch.cat([images.flatten(1) for images in batches])}

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        return neighbours(images.flatten(1), reference["pixels"], self.settings.k)
