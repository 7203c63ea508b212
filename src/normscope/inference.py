"""What a fitted method says of many images, a batch at a time."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from normscope.errors import NotFiniteError
from normscope.images.notation import printable
from normscope.images.store import Store
from normscope.training.encoded import Encoded
from normscope.training.method import Method, Reference
from normscope.training.observer import Observer

T = TypeVar("T")

BATCH = 128
SLOW_BATCH = 16  # where each image is searched for
MOST_PIXELS = 2**22  # of the images in a batch: some sign of progress every few seconds


def batch_size(method: Method) -> int:
    """How many images are scored at a time."""
    most = BATCH if method.scores_quickly else SLOW_BATCH
    return min(most, max(1, MOST_PIXELS // math.prod(method.shape[1:])))


def encoded(method: Method, pixels: Store, device: torch.device, observer: Observer | None = None) -> Encoded:
    return Encoded(method, pixels, device, batch_size(method), observer=observer or Observer())


def scores(method: Method, reference: Reference, images: Encoded) -> npt.NDArray[np.float64]:
    """[n], higher is more anomalous, all finite."""
    found = raw_scores(method, reference, images)
    check_finite("score", found, images)
    return found


def raw_scores(method: Method, reference: Reference, images: Encoded) -> npt.NDArray[np.float64]:
    """[n]; whether they are finite, the caller looks."""
    return joined(of_batches(partial(method.score, reference=reference), method, images))


def check_finite(what: str, values: npt.NDArray[np.float64], images: Encoded) -> None:
    """Raise `NotFiniteError`, which names the first image of which a value is NaN or infinite."""
    bad = np.flatnonzero(~np.isfinite(values).all(tuple(range(1, values.ndim))))
    if len(bad):
        index = int(bad[0] if images.indices is None else images.indices[bad[0]])
        paths = images.pixels.paths if isinstance(images.pixels, Store) else None
        which = printable(paths[index]) if paths else f"image {index}"
        raise NotFiniteError(f"the {what} of {which} is NaN or infinite; fit again, with another method or settings")


def codes(method: Method, images: Encoded) -> npt.NDArray[np.float64]:
    """[n, d]."""
    return joined(of_batches(method.code, method, images))


def heat_maps(method: Method, reference: Reference, images: Encoded, size: tuple[int, int]) -> npt.NDArray[np.float64]:
    """[n, *size], all finite: the method's own grid, resized once."""

    def resized(batch: Tensor) -> Tensor:
        heat = method.explain(batch, reference)[:, None].float()
        return as_float64(F.interpolate(heat, size, mode="bilinear", align_corners=False)[:, 0])

    found = joined(of_batches(resized, method, images))
    check_finite("heat map", found, images)
    return found


def raw_judgements(
    method: Method, reference: Reference, images: Encoded
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Scores [n], and heat maps [n, h, w] at the method's own grid; whether they are finite, the caller looks."""
    found = of_batches(partial(method.judge, reference=reference), method, images)
    return joined([scores for scores, _ in found]), joined([maps.float() for _, maps in found])


def of_batches(of: Callable[[Tensor], T], method: Method, images: Encoded) -> list[T]:
    """`of` every batch, one after the other, in eval mode."""
    method.eval()
    with torch.inference_mode():
        return [of(batch) for batch in images]


def joined(parts: Sequence[Tensor]) -> npt.NDArray[np.float64]:
    return torch.cat([as_float64(one) for one in parts]).numpy() if parts else np.empty(0)


def as_float64(values: Tensor) -> Tensor:
    """On the CPU. Complex ones, to which a setting that is not ours may lead, are refused: torch would cut them."""
    if values.is_complex():
        raise ValueError("scores are complex numbers")
    return values.double().cpu()
