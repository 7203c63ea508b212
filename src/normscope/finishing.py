"""Once training is over: the reference, its calibration, and outliers among the images."""

from typing import NamedTuple

import numpy as np

from normscope import inference
from normscope.calibration import Calibration, Indices
from normscope.errors import ImageFolderError, SettingError
from normscope.folds import drawn, held_out
from normscope.images.store import Store
from normscope.methods import find
from normscope.options import Options
from normscope.outliers import LOOKING, Outlier, find_outliers, trimmed
from normscope.training import loop
from normscope.training.encoded import Encoded
from normscope.training.method import Method, Reference

FOLDS = 2**31 + 3  # the key under which folds are drawn


class Finished(NamedTuple):
    """`calibration` is None without a false-alarm rate, and then nobody looks for outliers."""

    reference: Reference
    calibration: Calibration | None
    outliers: list[Outlier]


def finish(
    method: Method,
    normal: Store,
    images: Encoded,
    training: Indices,
    calibrating: Indices,
    options: Options,
    exclude_outliers: bool,
) -> Finished:
    """The reference is fitted to the training images or, if outliers are excluded, to those of them that agree best.

    Outliers are then no part of the calibration either. Should they be normal after all (of a clean folder one in a
    hundred at most is named), so many more normal images are flagged than promised.
    """
    seed, rate, cross = options.seed, options.false_alarm_rate, not method.phases()
    if rate is None:
        return Finished(loop.finish(method, images.subset(training), seed), None, [])
    n, reference, outliers, kept = len(normal), None, list[Outlier](), np.ones(len(normal), bool)
    if cross or method.scores_quickly:
        folds = drawn(n, np.random.default_rng((seed, FOLDS))) if cross else np.arange(n) % 2
        doing = "calibrating" if cross else LOOKING
        reference, plain = held_out(method, images, folds, seed, doing)
        scores = plain
        if exclude_outliers:
            reference = None
            kept, scores = trimmed(method, images, folds, seed, plain)
        outliers = find_outliers(normal, plain, scores)
    if reference is None:
        reference = loop.finish(method, images.subset(training[kept[training]]), seed)
    images.observer.parts("done", 1, 1)
    excluded = [one.position for one in outliers] if exclude_outliers else []
    if cross:
        return Finished(reference, Calibration(np.delete(scores, excluded), rate, "cross"), outliers)
    left = np.setdiff1d(calibrating, excluded)
    if len(left) == 0:
        raise ImageFolderError("no image is left to calibrate with; give more images, or exclude no outliers")
    scores = inference.scores(method, reference, images.subset(left, "calibrating"))
    return Finished(reference, Calibration(scores, rate, "split"), outliers)


def check_exclusion(options: Options, exclude_outliers: bool) -> None:
    if exclude_outliers and options.false_alarm_rate is None:
        raise SettingError("without a false-alarm rate nobody looks for outliers; give one, or exclude none")
    if exclude_outliers and not find(options.method).scores_quickly:
        raise SettingError(f"the method {options.method} scores too slowly to look for outliers; exclude none")
