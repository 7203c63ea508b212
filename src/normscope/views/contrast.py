"""Global contrast normalisation, then training images to [0, 1] (Ruff et al. 2018).

The least and greatest value of the normalised training images become 0 and 1; another image may go beyond. The paper's
come from a pass before training; here they are widened batch by batch, and have seen all training images after an epoch
or two.
"""

import torch
from torch import Tensor

UNSEEN = (0.0, 0.0)  # a normalised image has mean 0, so that its extremes include this


def widened(extremes: Tensor, images: Tensor) -> Tensor:
    """[2]: the least and greatest normalised value, those of the images included."""
    low, high = contrast_normalised(images).aminmax()
    return torch.stack([extremes[0].minimum(low), extremes[1].maximum(high)])


def stretched(images: Tensor, extremes: Tensor) -> Tensor:
    """Images normalised in contrast, with `extremes` at 0 and 1; as they are where none were seen."""
    low, high = extremes
    return (contrast_normalised(images) - low) / torch.where(high > low, high - low, 1.0)


def contrast_normalised(images: Tensor) -> Tensor:
    """Mean 0 and mean absolute value 1 over all pixels and channels of each image; a blank image is 0."""
    centred = images - images.mean((1, 2, 3), keepdim=True)
    # The published code divides by the deviation alone, which makes noise of the rounding in a blank image.
    return centred / centred.abs().mean((1, 2, 3), keepdim=True).clamp(min=1e-3)
