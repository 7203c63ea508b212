"""A detector with scikit-learn's outlier conventions: higher is more normal, +1 is normal and −1 is not."""

from collections.abc import Mapping, Sequence
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from normscope.detector import Detector
from normscope.images.size import Size


class AnomalyDetector(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    """`Detector` for pipelines and model selection. X is uint8 [n, h, w] or [n, h, w, 3].

    With `image_shape`, for instance (8, 8), rows of a table [n, 64] are taken for images of that shape. The other
    parameters are those of `Detector`.
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        budget: float | str | None = None,
        epochs: int | None = None,
        size: int | Size | Literal["auto"] = "auto",
        false_alarm_rate: float = 0.01,
        device: str = "auto",
        image_shape: Sequence[int] | None = None,
    ) -> None:
        self.method, self.settings, self.seed, self.budget, self.epochs = method, settings, seed, budget, epochs
        self.size, self.false_alarm_rate, self.device, self.image_shape = size, false_alarm_rate, device, image_shape

    def fit(self, X: npt.NDArray[np.uint8], y: object = None) -> Self:  # noqa: N803
        """Learns from normal images; `y` is there for scikit-learn and not looked at."""
        parameters = self.get_params(deep=False)
        del parameters["image_shape"]
        self.detector_ = Detector(**parameters).fit(self._images(X))
        self.offset_ = -self.detector_.calibration.threshold
        return self

    def score_samples(self, X: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:  # noqa: N803
        """[n], higher is more normal: the detector's score with its sign turned."""
        check_is_fitted(self, "detector_")
        return -self.detector_.score(self._images(X))

    def decision_function(self, X: npt.NDArray[np.uint8]) -> npt.NDArray[np.float64]:  # noqa: N803
        """[n], below nought where `predict` says −1."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:  # noqa: N803
        """[n]: +1 for normal images, −1 for anomalies at the false-alarm rate."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _images(self, X: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:  # noqa: N803
        return X if self.image_shape is None else np.asarray(X).reshape(len(X), *self.image_shape)
