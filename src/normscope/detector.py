"""Detector: the front for notebooks and scripts; what it does is in `fitting` and `model`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import numpy.typing as npt

from normscope import fitting, model, notebook
from normscope.calibration import Calibration
from normscope.card import Card
from normscope.errors import NotFittedError
from normscope.images.size import Size
from normscope.intake import Images, common_size, read
from normscope.model import Model, Row
from normscope.options import checked, options_of
from normscope.outliers import Outlier
from normscope.training.observer import Observer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Detector:
    """Learns what normal images look like, then scores new ones: higher is more anomalous.

    Without `budget` (seconds, or a text like "5m") and `epochs` it trains for five minutes at most. Images are
    resized to `size`: height and width, or one number for a square. `auto` is what is typical of them, with a shorter
    side from 28 pixels to what suits the method (64 for most); a square, unless the method takes rectangles.
    `false_alarm_rate` is the share of normal images that `predict` may flag: it is kept by a calibration set, held out
    before training (see `calibration`). None holds nothing out: then there are scores alone, and no outliers.
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
        false_alarm_rate: float | None = 0.01,
        device: str = "auto",
    ) -> None:
        self.options = checked(
            method,
            settings=settings,
            seed=seed,
            budget=budget,
            epochs=epochs,
            size=size,
            false_alarm_rate=false_alarm_rate,
            device=device,
        )
        self.outliers: list[Outlier] = []
        self._model: Model | None = None

    def fit(
        self,
        images: Images,
        *,
        anomalies: Images | None = None,
        allow_collapse: bool = False,
        exclude_outliers: bool = False,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        observer: Observer | None = None,
    ) -> Self:
        """Learns from normal images. Fitting again forgets what was learnt before.

        `anomalies` are images known to be bad, for a method that makes use of them. `outliers` then has those of the
        normal images that look as if they did not belong there; they were learnt from all the same, unless
        `exclude_outliers` keeps them out of the reference, the calibration and, where an encoder can judge images
        before, training. `observer` follows the fit; `checkpoint` and `resume` are those of `fitting.fit`.
        """
        self._model, self.outliers = None, []
        fitted = fitting.fit(
            images,
            self.options,
            anomalies=anomalies,
            allow_collapse=allow_collapse,
            exclude_outliers=exclude_outliers,
            checkpoint=Path(checkpoint) if checkpoint else None,
            resume=resume,
            observer=observer,
        )
        self._model, self.outliers = fitted.model, fitted.outliers
        return self

    @property
    def model(self) -> Model:
        """The fitted model, immutable: fitting again makes another."""
        if self._model is None:
            raise NotFittedError("this detector has not learnt anything yet; call fit first")
        return self._model

    @property
    def calibration(self) -> Calibration:
        """The scores of normal images that p-values, threshold and promise come from."""
        if self.model.calibration is None:
            raise NotFittedError("this detector was fitted without a calibration set; fit it with a false_alarm_rate")
        return self.model.calibration

    @property
    def card(self) -> Card:
        """What the model file says of itself."""
        return self.model.card

    def score(self, images: Images) -> npt.NDArray[np.float64]:
        """[n], higher is more anomalous. Files that cannot be read raise; `score_paths` gives them a row instead."""
        return self.model.scores(read(images, self.model.size))

    def p_value(self, images: Images) -> npt.NDArray[np.float64]:
        """[n]: the share of normal images in the calibration set that are at least as surprising."""
        return self.calibration.p_values(self.score(images))

    def predict(self, images: Images) -> npt.NDArray[np.bool_]:
        """[n]: whether each image is anomalous at the false-alarm rate."""
        return self.calibration.anomalous(self.score(images))

    def codes(self, images: Images) -> npt.NDArray[np.float64]:
        """[n, d]: the vector that the method represents each image by."""
        return self.model.codes(read(images, self.model.size))

    def explain(self, images: Images) -> npt.NDArray[np.float64]:
        """Heat maps [n, h, w]: higher where the image is more surprising. At the size of the images if these are
        arrays of one size, else at the size that the model works at."""
        return self.model.heat_maps(read(images, self.model.size), common_size(images) or self.model.size)

    def score_paths(self, paths: Sequence[str | Path]) -> list[Row]:
        """One row for each file, in order, as on the command line; a bad file is a row with an error."""
        return list(self.model.rows(paths))

    def plot_scores(self, images: Images | None = None) -> Axes:
        """A histogram of the calibration scores with the threshold and, if there are any, of the scores of `images`.

        Needs matplotlib: pip install 'normscope[plots]', as `show` does."""
        return notebook.plot_scores(self.model, images)

    def show(self, images: Images, most: int = 16) -> Figure:
        """The images with their heat maps over them, where the method has them on a scale, and their p-values; of more
        than `most` images the most surprising. A notebook shows the figure as the value of a cell."""
        return notebook.show(self.model, images, most)

    def _repr_html_(self) -> str:
        """For notebooks: the model in plain words, and its calibration scores with the threshold."""
        if self._model is None:
            return f"<p>normscope: <code>{escape(self.options.method)}</code>, nothing learnt yet; call fit</p>"
        return notebook.card(self._model)

    def save(self, path: str | Path) -> str:
        """Writes the model file, whole or not at all; returns its SHA-256."""
        return self.model.save(path)


def load(path: str | Path, *, device: str = "auto") -> Detector:
    """The detector in a model file. Nothing in the file is executed, and a file that was changed is refused."""
    fitted = model.load(path, device=device)
    detector = Detector()
    detector.options, detector._model = options_of(fitted.card, device), fitted
    return detector
