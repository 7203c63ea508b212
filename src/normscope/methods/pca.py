"""A control: what principal components of the pixels leave unexplained."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from normscope.errors import SettingError
from normscope.scoring.reservoir import sampled
from normscope.training.method import Batches, Method, Reference

MOST_IMAGES, MOST_VALUES = 3000, 2**27  # so many are kept: time is cubic in the first, the second takes half a gigabyte


@dataclass(frozen=True)
class Settings:
    """Components that keep 95 % of the variance: Deep SVDD's choice for its shallow methods (Ruff et al. 2018)."""

    variance: float = 0.95


class PCA(Method):
    """Control without learning: mean squared error of the pixels after projection on principal components.

    The fewest components that keep the share `variance` of the variance of the training images, at most one less than
    there are images. Of more than 3,000 images (682 at 256 pixels) as many are drawn at random.
    """

    explains = True
    rectangles = True
    settings: Settings

    def __init__(self, settings: Settings, shape: tuple[int, int, int]) -> None:
        super().__init__(settings, shape)
        if not 0 < settings.variance <= 1:
            raise SettingError(f"variance is {settings.variance}; give a share above 0 and up to 1")

    def finish(self, batches: Batches) -> Reference:
        x = sampled((images.flatten(1) for images in batches), min(MOST_IMAGES, MOST_VALUES // math.prod(self.shape)))
        mean = x.double().mean(0).float()
        return {"mean": mean, "components": components(x - mean, self.settings.variance)}

    def score(self, images: Tensor, reference: Reference) -> Tensor:
        return self.explain(images, reference).mean((1, 2))

    def explain(self, images: Tensor, reference: Reference) -> Tensor:
        """Squared error of each pixel, mean over channels."""
        mean, components = reference["mean"], reference["components"]
        restored = (images.flatten(1) - mean) @ components.T @ components + mean
        return (restored - images.flatten(1)).square().view(-1, *self.shape).mean(1)


def components(x: Tensor, variance: float) -> Tensor:
    """Centred [n, d] → [k, d], orthonormal: the fewest that keep that share of the variance, at most n − 1.

    Ours and not scikit-learn's, which runs on a CPU alone.
    """
    n, d = x.shape
    small = (x.T @ x if d <= n else x @ x.T).double()
    values, vectors = torch.linalg.eigh(small)
    values, vectors = values.flip(0).clamp(min=0), vectors.flip(1).float()
    kept = values.cumsum(0) / values.sum()
    k = min(int((kept < variance).sum()) + 1, n - 1, int((values > 1e-6 * values[0]).sum()))
    found = vectors[:, :k].T if d <= n else vectors[:, :k].T @ x
    return (found / found.norm(dim=1, keepdim=True)).contiguous()
