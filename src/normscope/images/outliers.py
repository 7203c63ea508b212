"""Outliers among thumbnails, for `normscope doctor`; neither labels nor training are needed."""

import numpy as np
import numpy.typing as npt

from normscope.images.reader import Pixels

__all__ = ["FEWEST", "THRESHOLD", "outlier_scores"]

FEWEST = 10  # images below which there are no outliers
THRESHOLD = 5.0  # no clean set of digits or photographs that was tried had an image above it
NEIGHBOURS = 5
REFERENCES = 2000
BLOCK = 256


def outlier_scores(thumbnails: Pixels) -> npt.NDArray[np.float64]:
    """Mean distance of each image [n, h, w, 3] to its five nearest neighbours, in robust standard deviations.

    These are counted from the median. Neighbours are looked for among 2000 images spread over all of them, so memory
    does not grow with n². More than five outliers that are like each other hide one another. Fewer than ten images all
    get 0.
    """
    n = len(thumbnails)
    if n < FEWEST:
        return np.zeros(n)
    flat = thumbnails.reshape(n, -1)
    references = np.unique(np.linspace(0, n - 1, min(n, REFERENCES)).astype(int))
    distance = np.concatenate([_to_nearest(flat, start, references) for start in range(0, n, BLOCK)])
    median = np.median(distance)
    deviation = 1.4826 * np.median(np.abs(distance - median))  # 1.4826: the standard deviation of a Gaussian
    scores: npt.NDArray[np.float64] = (distance - median) / max(deviation, 0.5)  # half a grey level: less is noise
    return scores


def _to_nearest(flat: Pixels, start: int, references: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    """Mean distance to the nearest references other than itself, in grey levels, for one block of rows."""
    x, y = flat[start : start + BLOCK].astype(np.float64), flat[references].astype(np.float64)
    squared = (x**2).sum(1)[:, None] + (y**2).sum(1) - 2 * x @ y.T
    distance = np.sqrt(np.maximum(squared, 0) / flat.shape[1])
    distance[np.arange(start, start + len(x))[:, None] == references] = np.inf
    nearest: npt.NDArray[np.float64] = np.partition(distance, NEIGHBOURS - 1)[:, :NEIGHBOURS].mean(axis=1)
    return nearest
