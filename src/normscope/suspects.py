"""Which of the images that were given as normal may not be: those that the fitted detector finds far too strange."""

import copy
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from normscope import inference
from normscope.images.store import Store
from normscope.training import loop
from normscope.training.method import Method

FENCE = 6.0


class Suspect(NamedTuple):
    """An image by its place among those that could be read, its file if it came from one, and its score."""

    place: int
    path: Path | None
    score: float


def find_suspects(method: Method, normal: Store, plan: loop.Plan) -> list[Suspect]:
    """Each half is scored by what `finish` makes of the other half: who is remembered is not found strange."""
    scores = np.empty(len(normal))
    for half in (0, 1):
        seen = copy.deepcopy(method)
        loop.finish(seen, normal.subset(slice(1 - half, None, 2)), plan)
        watch = partial(plan.watch_images, "looking for suspects")
        scores[half::2] = inference.scores(seen, normal.subset(slice(half, None, 2)), plan.device, watch)
    paths = normal.paths or [None] * len(normal)
    return [Suspect(int(place), paths[place], float(scores[place])) for place in strange(scores)]


def strange(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Indices of scores far above the rest, the highest first.

    Far is FENCE times as far above the median as the upper quartile is (four standard deviations of a normal
    distribution). Both stay where they are when a tenth of the images are anomalies, unlike mean and deviation.
    """
    middle, upper = np.quantile(scores, [0.5, 0.75])
    order = np.argsort(-scores, kind="stable")
    return order[scores[order] > middle + FENCE * (upper - middle)]
