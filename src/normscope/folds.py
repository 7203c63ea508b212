"""Scores of normal images under references fitted to others of them."""

import numpy as np
import numpy.typing as npt

from normscope import inference
from normscope.training import loop
from normscope.training.encoded import Encoded
from normscope.training.method import Method

FEWEST, MOST = 4, 16
ENOUGH = 1000  # images that the references of all folds are fitted to, about: few images are in more folds


def drawn(n: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """The fold of each image [n], at random and of equal sizes."""
    return rng.permutation(n) % min(n, MOST, max(FEWEST, ENOUGH // n))


def out_of_fold(
    method: Method,
    images: Encoded,
    folds: npt.NDArray[np.intp],
    seed: int,
    doing: str,
    kept: npt.NDArray[np.bool_] | None = None,
) -> npt.NDArray[np.float64]:
    """[n]: each fold is scored by a reference fitted to all other folds, or to those images of them that are `kept`.

    The observer of the images hears of one part more than there are folds: the reference to all, which comes next.
    """
    scores, every = np.empty(len(images)), np.unique(folds)
    for done, fold in enumerate(every):
        images.observer.parts(doing, done, len(every) + 1)
        others = folds != fold if kept is None else (folds != fold) & kept
        own = np.flatnonzero(folds == fold)
        reference = loop.finish(method, images.subset(np.flatnonzero(others)), seed)
        scores[own] = inference.scores(method, reference, images.subset(own))
    images.observer.parts(doing, len(every), len(every) + 1)
    return scores
