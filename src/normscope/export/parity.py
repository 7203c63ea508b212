"""How far the scores of an exported graph are from those of the model itself."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from normscope.errors import ExportError
from normscope.export.exported_file import Pixels, Run
from normscope.images import store
from normscope.images.size import Size
from normscope.model import Model

TOLERANCE = 1e-3
GENERATED = 12
Floats = npt.NDArray[np.float64]


class Parity(NamedTuple):
    """Largest differences over `images`: of scores, of scores on their own scale, of heat maps on theirs.

    The scale of a score is the standard deviation of the calibration scores or, far away from these, its distance to
    their median; that of heat maps is the largest heat in them.
    """

    images: int
    largest: float
    relative: float
    heat_map: float | None


def generated(size: Size) -> Pixels:
    """[12, *size, 3]: flat, blotchy and noisy images, from dark to bright."""
    rng = np.random.default_rng(0)
    images = []
    for index in range(GENERATED):
        grain = (1, 2, 4, 8, 16, 1024)[index % 6]  # pixels
        coarse = [side // grain + 1 for side in size]
        level, contrast = 255 * index / (GENERATED - 1), 20 + 50 * (index % 3)
        blotches = np.clip(rng.normal(level, contrast, (*coarse, 3)), 0, 255).astype(np.uint8)
        images.append(blotches.repeat(grain, 0).repeat(grain, 1)[: size[0], : size[1]])
    return np.stack(images)


def compare(model: Model, run: Run, pixels: Pixels) -> Parity:
    """Of the images [n, h, w, 3], one alone and the rest together; raises if the two disagree."""
    stored = store.from_arrays(pixels, model.size)
    wanted, parts = model.scores(stored), [run(pixels[:1]), run(pixels[1:])]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    difference = np.abs(found["score"].astype(np.float64) - wanted)
    relative = difference / scales(model, wanted)
    heat = None
    if "heat_map" in found:
        maps = model.heat_maps(stored, found["heat_map"].shape[1:])
        heat = float(np.abs(found["heat_map"] - maps).max() / max(np.abs(maps).max(), 1e-12))
    parity = Parity(len(pixels), float(difference.max()), float(relative.max()), heat)
    check(parity)
    check_verdicts(model, wanted, found)
    return parity


def scales(model: Model, scores: Floats) -> Floats:
    usual = model.calibration.scores if model.calibration else scores
    return np.maximum(np.abs(scores - np.median(usual)), max(float(usual.std()), 1e-12))


def check(parity: Parity) -> None:
    for what, value in (("score", parity.relative), ("heat map", parity.heat_map or 0.0)):
        if not value <= TOLERANCE:  # nor if it is NaN
            raise ExportError(
                f"the exported graph disagrees with the model: {what}s differ by {value:.2g} of their scale, more than "
                f"the {TOLERANCE:g} allowed; nothing was written"
            )


def check_verdicts(model: Model, scores: Floats, found: dict[str, npt.NDArray[np.generic]]) -> None:
    """p-values and verdicts have to be those of a score within the tolerance."""
    known = model.calibration
    if known is None:
        return
    slack = TOLERANCE * scales(model, scores)
    low, high = known.p_values(scores + slack), known.p_values(scores - slack)
    p_value, anomalous = found["p_value"].astype(np.float64), found["anomalous"].astype(bool)
    inside = (low - 1e-6 <= p_value) & (p_value <= high + 1e-6)
    sure = np.abs(scores - known.threshold) > slack
    if not inside.all() or (anomalous != known.anomalous(scores))[sure].any():
        raise ExportError("the exported graph disagrees with the model's p-values or verdicts; nothing was written")
