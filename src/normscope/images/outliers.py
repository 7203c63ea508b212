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
BLOCK = 64


def outlier_scores(thumbnails: Pixels | Thumbnails) -> npt.NDArray[np.float64]:
    """Mean distance of each image [n, h, w, 3] to its five nearest neighbours, in robust standard deviations.

    These are counted from the median. Neighbours are looked for among 2000 images spread over all of them, so memory
    does not grow with n². More than five outliers that are like each other hide one another. Fewer than ten images all
    get 0.
    """
    n = len(thumbnails)
    if n < FEWEST:
        return np.zeros(n)
    scores = _distances(thumbnails)
    scores -= np.median(scores)
    deviation = 1.4826 * np.median(np.abs(scores))  # 1.4826: the standard deviation of a Gaussian
    scores /= max(deviation, 0.5)  # half a grey level: less is noise
    return scores


def _distances(thumbnails: Pixels | Thumbnails) -> npt.NDArray[np.float64]:
    """Of each image, the mean distance to the nearest references other than itself, in grey levels."""
    n = len(thumbnails)
    references = np.unique(np.linspace(0, n - 1, min(n, REFERENCES)).astype(int))
    others = _flat(thumbnails[references])
    lengths = np.array([np.square(one, dtype=np.float64).sum() for one in others])
    distance = np.empty(n)
    for start in range(0, n, BLOCK):
        squared = _squared_distances(_flat(thumbnails[start : start + BLOCK]), others, lengths)
        squared[np.arange(start, start + len(squared))[:, None] == references] = np.inf
        squared.partition(NEIGHBOURS - 1)
        distance[start : start + BLOCK] = np.sqrt(squared[:, :NEIGHBOURS]).mean(axis=1)
    return distance


def _flat(thumbnails: Pixels) -> Pixels:
    return thumbnails.reshape(len(thumbnails), -1)


def _squared_distances(some: Pixels, others: Pixels, lengths: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """[n, m], in grey levels: of images [n, d] from others [m, d] of these squared lengths.

    A block of the others at a time is made floats.
    """
    x, squared = some.astype(np.float64), np.empty((len(some), len(others)))
    for start in range(0, len(others), BLOCK):
        squared[:, start : start + BLOCK] = -2 * x @ others[start : start + BLOCK].astype(np.float64).T
    squared += lengths
    squared += (x**2).sum(1)[:, None]
    squared /= some.shape[1]
    return np.maximum(squared, 0, out=squared)
