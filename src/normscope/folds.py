"""Scores of normal images under references fitted to others of them."""

import numpy as np
import numpy.typing as npt

from normscope import inference
from normscope.training import loop
from normscope.training.encoded import Encoded
from normscope.training.method import Method, Reference

FEWEST, MOST = 4, 16
ENOUGH = 1000  # images that the references of all folds are fitted to, about: few images are in more folds


def drawn(n: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """The fold of each image [n], at random and of equal sizes."""
    return rng.permutation(n) % min(n, MOST, max(FEWEST, ENOUGH // n))


def held_out(
    method: Method,
    images: Encoded,
    folds: npt.NDArray[np.intp],
    seed: int,
    doing: str,
    kept: npt.NDArray[np.bool_] | None = None,
) -> tuple[Reference | None, npt.NDArray[np.float64]]:
    """Scores [n] under references fitted to other images, of those that are `kept`; and the reference of all of these,
    if the method makes it on the way.

    A method that `holds_out` draws folds of its own; what its reference was not fitted to is scored by that.
    """
    if not method.holds_out:
        return None, out_of_fold(method, images, folds, seed, doing, kept)
    given = np.arange(len(images)) if kept is None else np.flatnonzero(kept)
    reference, held, chosen = loop.finish_held_out(method, images.subset(given), seed)
    scores = np.full(len(images), np.nan)
    scores[given[chosen]] = held.double().cpu().numpy()
    rest = np.flatnonzero(np.isnan(scores))
    scores[rest] = inference.scores(method, reference, images.subset(rest, doing))
    return reference, scores


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
