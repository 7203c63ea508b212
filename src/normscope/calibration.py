"""What a score means: p-values and a threshold from normal images that training never saw (split conformal)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from normscope.errors import ImageFolderError, ModelFileError, SettingError
from normscope.settings import JSON

Indices = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


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
    """Scores of m held-out normal images, and the false-alarm rate that was asked for.

    If a new normal image is exchangeable with the held-out ones, then P(p ≤ rate) ≤ rate, on average over the draw of
    the held-out set; without ties it lies between rate − 1/(m+1) and rate. For one fixed held-out set the false-alarm
    rate scatters around that, the less the larger m is.
    """

    scores: Scores  # [m], finite; kept sorted
    rate: float

    def __post_init__(self) -> None:
        check_rate(self.rate)
        scores = np.sort(np.asarray(self.scores, dtype=np.float64))
        if scores.ndim != 1 or len(scores) == 0 or not np.isfinite(scores).all():
            raise ValueError(f"held-out scores must be finite and of shape [m], m ≥ 1; got shape {list(scores.shape)}")
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
            f"{m} held-out image{'s' if m > 1 else ''} can promise a false-alarm rate of {percent(self.achievable)} "
            f"at best; about {math.ceil(1 / self.rate) - 1} are needed for {percent(self.rate)}"
        )

    @property
    def threshold(self) -> float:
        """An image is anomalous when its score is above this: exactly when its p-value is at most `achievable`."""
        m = len(self.scores)
        # p ≤ rate means that fewer than `allowed` held-out scores reach s: the allowed-th largest is below s.
        allowed = np.count_nonzero(np.arange(1, m + 2) / (m + 1) <= self.achievable)
        return float(self.scores[m - allowed])

    def p_values(self, scores: npt.ArrayLike) -> Scores:
        """(1 + number of held-out scores ≥ s) / (m + 1) for each s of scores [n]; small is anomalous."""
        m = len(self.scores)
        reached = m - np.searchsorted(self.scores, checked(scores), side="left")
        return np.asarray((1 + reached) / (m + 1), dtype=np.float64)

    def anomalous(self, scores: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each of scores [n] is above the threshold."""
        return np.asarray(checked(scores) > self.threshold)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, JSON]]:
        """For the model file: the tensors, and what its card says under "calibration"."""
        card: dict[str, JSON] = {
            "rate": self.rate,
            "rate_used": self.achievable,
            "held_out": len(self.scores),
            "threshold": self.threshold,
            "note": self.note,
        }
        return {"calibration.scores": torch.tensor(self.scores)}, card

    @classmethod
    def unpack(cls, tensors: Mapping[str, Tensor], card: Mapping[str, JSON]) -> "Calibration":
        """The inverse of `pack`."""
        try:
            rate = card["rate"]
            if not isinstance(rate, float):
                raise ValueError(f"rate {rate!r}")
            return cls(tensors["calibration.scores"].numpy(), rate)
        except (KeyError, ValueError) as error:
            raise ModelFileError(f"the model holds no usable calibration ({error}); fit it again") from error


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
