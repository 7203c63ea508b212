"""Outliers among thumbnails, for `normscope doctor`; neither labels nor training are needed."""

import numpy as np
import numpy.typing as npt

from normscope.images.reader import Pixels
from normscope.images.thumbnails import Thumbnails

__all__ = ["FEWEST", "THRESHOLD", "outlier_scores"]

FEWEST = 10  # images below which there are no outliers
THRESHOLD = 5.0  # no clean set of digits or photographs that was tried had an image above it
NEIGHBOURS = 5
REFERENCES = 2000
BLOCK = 128


def outlier_scores(thumbnails: Pixels | Thumbnails) -> npt.NDArray[np.float64]:
    """Mean distance of each image [n, h, w, 3] to its five nearest neighbours, in robust standard deviations.

    These are counted from the median. Neighbours are looked for among 2000 images spread over all of them, so memory
    does not grow with n². More than five outliers that are like each other hide one another. Fewer than ten images all
    get 0.
    """
    n = len(thumbnails)
    if n < FEWEST:
        return np.zeros(n)
    references = np.unique(np.linspace(0, n - 1, min(n, REFERENCES)).astype(int))
    others = _flat(thumbnails[references])
    distance = np.empty(n)
    for start in range(0, n, BLOCK):
        squared = _squared_distances(_flat(thumbnails[start : start + BLOCK]), others)
        squared[np.arange(start, start + len(squared))[:, None] == references] = np.inf
        distance[start : start + BLOCK] = _to_nearest(squared)
    median = np.median(distance)
    deviation = 1.4826 * np.median(np.abs(distance - median))  # 1.4826: the standard deviation of a Gaussian
    scores: npt.NDArray[np.float64] = (distance - median) / max(deviation, 0.5)  # half a grey level: less is noise
    return scores


def _flat(thumbnails: Pixels) -> Pixels:
    return thumbnails.reshape(len(thumbnails), -1)


def _squared_distances(some: Pixels, others: Pixels) -> npt.NDArray[np.float64]:
    """[n, m], in grey levels: of images [n, d] from others [m, d], of which a block at a time is made floats."""
    x, squared = some.astype(np.float64), np.empty((len(some), len(others)))
    for start in range(0, len(others), BLOCK):
        y = others[start : start + BLOCK].astype(np.float64)
        squared[:, start : start + BLOCK] = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * x @ y.T
    return np.maximum(squared, 0, out=squared) / some.shape[1]


def _to_nearest(squared: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[n]: mean distance to the nearest."""
    nearest: npt.NDArray[np.float64] = np.sqrt(np.partition(squared, NEIGHBOURS - 1)[:, :NEIGHBOURS]).mean(axis=1)
    return nearest
