"""What a fitted method says of a store of images, a batch at a time; None where it has nothing to say."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from normscope.images.store import Store
from normscope.training.batches import InOrder, Watch, unwatched
from normscope.training.method import Batches, Method

BATCH = 128
SLOW_BATCH = 16  # where each image is searched for: some sign of progress every few seconds


def together(method: Method) -> int:
    """How many images are scored at a time."""
    return BATCH if method.scores_quickly else SLOW_BATCH


def scores(method: Method, pixels: Store, device: torch.device, watch: Watch = unwatched) -> npt.NDArray[np.float64]:
    """[n], higher is more anomalous. `watch` is told how many are done, and of how many."""
    method.eval()
    found = said(method.score, InOrder(pixels, together(method), device, watch))
    return np.empty(0) if found is None else found


def codes(method: Method, pixels: Store, device: torch.device) -> npt.NDArray[np.float64] | None:
    """[n, d]."""
    return said(method.code, InOrder(pixels, BATCH, device))


def heat_maps(
    method: Method, pixels: Store, device: torch.device, side: tuple[int, int]
) -> npt.NDArray[np.float64] | None:
    """[n, h, w], at the height and width of `side`."""

    def enlarged(images: Tensor) -> Tensor | None:
        heat = method.explain(images)
        if heat is None:
            return None
        return F.interpolate(heat[:, None].float(), side, mode="bilinear", align_corners=False)[:, 0]

    return said(enlarged, InOrder(pixels, BATCH, device))


def said(of: Callable[[Tensor], Tensor | None], batches: Batches) -> npt.NDArray[np.float64] | None:
    """What is said of all batches; None if nothing is said of the first, or there is none."""
    parts = []
    with torch.inference_mode():
        for batch in batches:
            part = of(batch)
            if part is None:
                return None
            parts.append(part.double().cpu())
    return torch.cat(parts).numpy() if parts else None
