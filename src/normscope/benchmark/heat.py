"""How well heat maps find the anomalous pixels, where a data set knows which these are."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from normscope.benchmark.pixels import pixel_auroc, pro
from normscope.datasets.task import Images
from normscope.detector import Detector
from normscope.errors import SettingError
from normscope.images.reader import decode, resize

SIDE = 256
"""Maps and masks are compared at this size, squashed to a square as the images are."""

ANOMALOUS = 127


def heat_metrics(
    detector: Detector, images: Images, masks: Sequence[Path | None], is_anomaly: NDArray[np.bool_]
) -> dict[str, float]:
    """`pixel_auroc` and `pro`; nothing from a method that cannot say where an image is surprising.

    Anomalies without a mask are left out: where they are anomalous is not known.
    """
    known = [i for i, mask in enumerate(masks) if mask is not None or not is_anomaly[i]]
    shown = images[known] if isinstance(images, np.ndarray) else [images[i] for i in known]
    try:
        maps = torch.from_numpy(detector.explain(shown)).float()
    except SettingError:
        return {}
    maps = F.interpolate(maps[:, None], (SIDE, SIDE), mode="bilinear", align_corners=False)[:, 0]
    where = np.stack([read_mask(masks[i]) for i in known])
    return {"pixel_auroc": pixel_auroc(maps.numpy(), where), "pro": pro(maps.numpy(), where)}


def read_mask(path: Path | None) -> NDArray[np.bool_]:
    if path is None:
        return np.zeros((SIDE, SIDE), bool)
    return resize(decode(path).pixels, SIDE)[..., 0] > ANOMALOUS
