"""How well heat maps find the anomalous pixels, where a data set knows which these are."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from normscope.benchmark.pixels import pixel_auroc, pro
from normscope.errors import DatasetError, ImageError
from normscope.images.decoding import decode_file
from normscope.images.size import Size
from normscope.images.store import Store
from normscope.model import Model

SIDE = 256
"""The shorter side of the maps and masks that are compared; their aspect ratio is that of the images in the model."""

ANOMALOUS = 127


def heat_metrics(
    model: Model, pixels: Store, masks: Sequence[Path | None], is_anomaly: NDArray[np.bool_]
) -> dict[str, float]:
    """`pixel_auroc` and `pro`. Anomalies without a mask are left out: where they are anomalous is not known."""
    known = [i for i, mask in enumerate(masks) if mask is not None or not is_anomaly[i]]
    height, width = (round(SIDE * side / min(model.size)) for side in model.size)
    maps = model.heat_maps(pixels.subset(known), (height, width)).astype(np.float32)
    where = np.stack([read_mask(masks[i], (height, width)) for i in known])
    return {"pixel_auroc": pixel_auroc(maps, where), "pro": pro(maps, where)}


def read_mask(path: Path | None, size: Size) -> NDArray[np.bool_]:
    if path is None:
        return np.zeros(size, bool)
    try:
        return decode_file(path, size).pixels[..., 0] > ANOMALOUS
    except ImageError as error:
        raise DatasetError(f"the mask {path} cannot be read: {error}; mend it, or remove it") from error
