"""Which of the images that were given as normal may not be: those that score far above the rest."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from normscope import inference
from normscope.images.store import Store
from normscope.training import loop
from normscope.training.encoded import Encoded
from normscope.training.method import Method

FENCE = 6.0


class Outlier(NamedTuple):
    """An image by its position among those that could be read, its file if it came from one, and its score."""

    position: int
    path: Path | None
    score: float


def find_outliers(method: Method, normal: Store, images: Encoded, seed: int) -> list[Outlier]:
    """Two-fold: each half is scored by a reference fitted to the other half."""
    scores = np.empty(len(normal))
    for half in (0, 1):
        own, other = (np.arange(start, len(normal), 2) for start in (half, 1 - half))
        reference = loop.finish(method, images.subset(other), seed)
        scores[half::2] = inference.scores(method, reference, images.subset(own, "looking for outliers"))
    paths = normal.paths or [None] * len(normal)
    return [Outlier(int(index), paths[index], float(scores[index])) for index in above_the_fence(scores)]


def above_the_fence(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Indices of scores far above the rest, the highest first.

    Far is FENCE times as far above the median as the upper quartile is (four standard deviations of a normal
    distribution). Both stay where they are when a tenth of the images are anomalies, unlike mean and deviation.
    """
    middle, upper = np.quantile(scores, [0.5, 0.75])
    order = np.argsort(-scores, kind="stable")
    return order[scores[order] > middle + FENCE * (upper - middle)]
