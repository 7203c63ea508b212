"""What a score means: p-values and a threshold from normal images, scored by a reference that they had no part in."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import betaincinv
from torch import Tensor

from normscope.errors import ImageFolderError, ModelFileError, SettingError
from normscope.settings import JSON
from normscope.tail import Tail, fit_tail

Indices = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
Kind = Literal["split", "cross"]
LIKELY = 0.9


def held_out(n: int, rate: float, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Sorted indices of the images to train on and of those to calibrate with, drawn at random.

    Held out are a tenth of the images, or 2/rate if that is more (1/rate − 1 is the least that can promise `rate`, and
    then one odd image would be the threshold), but at most a quarter and at least one.
    """
    check_rate(rate)
    if n < 2:
        raise ImageFolderError(f"{n} normal images cannot be split for calibration; give at least 2, better 100")
    count = max(1, int(min(max(n / 10, 2 / rate), n / 4)))
    order = rng.permutation(n)
    return np.sort(order[count:]), np.sort(order[:count])


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of m normal images under a reference that they had no part in, and the false-alarm rate asked for.

    `split`: the m images were held out before training. If a new normal image is exchangeable with them, then
    P(p ≤ rate) ≤ rate, on average over draws of these images; without ties it lies between rate − 1/(m+1) and rate. For
    one fixed calibration set the false-alarm rate scatters around that, the less the larger m is (`likely`).

    `cross`, for methods that train nothing: each fold of the m images is scored by a reference fitted to the other
    folds, and new images by one fitted to all (cross-conformal, Vovk 2015, with one reference in place of one for each
    fold). There is no theorem for this with that constant: CV+, which keeps the references of all folds, promises
    P(p ≤ rate) ≤ 2·rate plus a term of order 1/√m (Barber et al. 2021). Here a new image is scored by a reference that
    saw more images, so its score is lower, if anything, and fewer normal images are flagged than promised. A score that
    is scaled by how normal images scored may err the other way, by a fraction of the rate, if there are fewer images
    than dimensions (docs/calibration.md).

    `reviewed` are those of the scores that joined later (`joined_by`). What is promised supposes that their images were
    chosen at random; if they were chosen because they were flagged, fewer images are flagged, normal or not.
    """

    scores: Scores  # [m], finite; kept sorted
    rate: float
    kind: Kind
    reviewed: Mapping[str, float] = field(default_factory=dict)  # by the SHA-256 of the image

    def __post_init__(self) -> None:
        check_rate(self.rate)
        scores = np.sort(np.asarray(self.scores, dtype=np.float64))
        if scores.ndim != 1 or len(scores) == 0 or not np.isfinite(scores).all():
            raise ValueError(f"calibration scores are not finite or not of shape [m], m ≥ 1: {list(scores.shape)}")
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind {self.kind!r}")
        if self.reviewed and not without(scores, self.reviewed.values()):
            raise ValueError("all calibration scores are of reviewed images")
        scores.flags.writeable = False
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "rate", float(self.rate))

    @property
    def achievable(self) -> float:
        """The rate in use: no p-value is below 1/(m+1), so a smaller rate than that cannot be kept."""
        return max(self.rate, 1 / (len(self.scores) + 1))

    @property
    def note(self) -> str | None:
        """A sentence for the user when the rate in use is not the one asked for."""
        if self.achievable == self.rate:
            return None
        m = len(self.scores)
        return (
            f"{m} calibration image{'s' if m > 1 else ''} can promise a false-alarm rate of {percent(self.achievable)} "
            f"at best; about {math.ceil(1 / self.rate) - 1} are needed for {percent(self.rate)}"
        )

    @property
    def allowed(self) -> int:
        """p ≤ rate means that fewer than so many calibration scores reach s."""
        m = len(self.scores)
        return int(np.count_nonzero(np.arange(1, m + 2) / (m + 1) <= self.achievable))

    @property
    def threshold(self) -> float:
        """An image is anomalous when its score is above this: exactly when its p-value is at most `achievable`."""
        return float(self.scores[len(self.scores) - self.allowed])

    def threshold_without(self, scores: Sequence[float]) -> float | None:
        """What it would be if these were no part of the calibration; None if they are none, or if none were left."""
        left = without(self.scores, scores) if set(scores) <= set(self.scores.tolist()) else []
        return replace(self, scores=np.array(left), reviewed={}).threshold if left else None

    @property
    def likely(self) -> tuple[float, float]:
        """Between which 90 % of the false-alarm rates of single calibration sets lie: they follow a Beta distribution.

        Without ties, and for `cross` approximately.
        """
        tails = (1 - LIKELY) / 2, (1 + LIKELY) / 2
        low, high = betaincinv(self.allowed, len(self.scores) + 1 - self.allowed, tails)
        return float(low), float(high)

    @property
    def bound(self) -> str:
        """The word before a false-alarm rate: out-of-fold scores promise none exactly."""
        return "at most" if self.kind == "split" else "about"

    @property
    def promise(self) -> str:
        """A sentence for the user: what is anomalous, and how many normal images will be."""
        low, high = map(percent, self.likely)
        reviewed = f" ({len(self.reviewed)} reviewed as fine)" if self.reviewed else ""
        return (
            f"scores above {self.threshold:.4g} are anomalous: {self.bound} {percent(self.achievable)} of normal "
            f"images on average over draws; with these {len(self.scores)} calibration images{reviewed} between {low} "
            f"and {high} ({percent(LIKELY)} sure)"
        )

    def at(self, rate: float) -> "Calibration":
        """The same scores with another false-alarm rate."""
        return replace(self, rate=rate)

    def joined_by(self, reviewed: Mapping[str, float]) -> "Calibration":
        """With the scores of normal images that had no part in the fit, by their SHA-256; each image joins once."""
        new = {image: score for image, score in reviewed.items() if image not in self.reviewed}
        scores = np.concatenate([self.scores, np.array(list(new.values()), np.float64)])
        return replace(self, scores=scores, reviewed={**self.reviewed, **new})

    @property
    def unreviewed(self) -> "Calibration":
        """As it was before reviewed images joined."""
        return replace(self, scores=np.array(without(self.scores, self.reviewed.values())), reviewed={})

    @cached_property
    def tail(self) -> Tail | None:
        return fit_tail(self.scores)

    def p_values(self, scores: npt.ArrayLike) -> Scores:
        """(1 + number of calibration scores ≥ s) / (m + 1) for each s of scores [n]; small is anomalous."""
        m = len(self.scores)
        reached = m - np.searchsorted(self.scores, checked(scores), side="left")
        return np.asarray((1 + reached) / (m + 1), dtype=np.float64)

    def estimates(self, scores: npt.ArrayLike) -> Scores | None:
        """p-values [n] that go below 1/(m+1): estimates, of which nothing is promised. None where there is no tail.

        Up to where the tail starts they are the `p_values`, and go on from there without a jump.
        """
        if self.tail is None:
            return None
        new = checked(scores)
        return np.where(new > self.tail.start, self.tail.exceeded(new), self.p_values(new))

    def anomalous(self, scores: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each of scores [n] is above the threshold."""
        return np.asarray(checked(scores) > self.threshold)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, JSON]]:
        """For the model file: the tensors, and what its card says under "calibration"."""
        card: dict[str, JSON] = {
            "kind": self.kind,
            "rate": self.rate,
            "rate_used": self.achievable,
            "images": len(self.scores),
            "reviewed": len(self.reviewed),
            "threshold": self.threshold,
            "threshold_without_reviewed": self.unreviewed.threshold,
            "promise": self.promise,
            "note": self.note,
            "tail": None if self.tail is None else self.tail._asdict(),
        }
        tensors = {"calibration.scores": torch.tensor(self.scores)}
        if self.reviewed:
            tensors["calibration.reviewed"] = torch.tensor(list(self.reviewed.values()), dtype=torch.float64)
            names = [list(bytes.fromhex(image)) for image in self.reviewed]
            tensors["calibration.reviewed_sha256"] = torch.tensor(names, dtype=torch.uint8)
        return tensors, card

    @classmethod
    def unpack(cls, tensors: Mapping[str, Tensor], card: Mapping[str, JSON]) -> "Calibration":
        """The inverse of `pack`."""
        try:
            rate = card["rate"]
            if not isinstance(rate, float):
                raise ValueError(f"rate {rate!r}")
            scores = tensors["calibration.scores"].numpy()
            return cls(scores, rate, cast(Kind, card["kind"]), unpack_reviewed(tensors))
        except (KeyError, ValueError) as error:
            raise ModelFileError(f"the model holds no usable calibration ({error}); fit it again") from error


def without(scores: Scores, removed: Iterable[float]) -> list[float]:
    """The scores that are left; each of `removed` must be one of them."""
    left = Counter(scores.tolist())
    left.subtract(removed)
    if min(left.values()) < 0:
        raise ValueError("a reviewed score is not among the calibration scores")
    return list(left.elements())


def unpack_reviewed(tensors: Mapping[str, Tensor]) -> dict[str, float]:
    """Of a model file, by the SHA-256 of the image; none if none joined."""
    if "calibration.reviewed" not in tensors:
        return {}
    names = [bytes(name).hex() for name in tensors["calibration.reviewed_sha256"].tolist()]
    return dict(zip(names, tensors["calibration.reviewed"].tolist(), strict=True))


def check_rate(rate: float) -> None:
    if not 0 < rate < 1:
        raise SettingError(f"false-alarm rate {rate} is not between 0 and 1; give one such as 0.01")


def checked(scores: npt.ArrayLike) -> Scores:
    array = np.asarray(scores, dtype=np.float64)
    if np.isnan(array).any():
        raise ValueError("a score is NaN; no method may return that")
    return array


def percent(rate: float) -> str:
    return f"{100 * rate:.3g} %"
