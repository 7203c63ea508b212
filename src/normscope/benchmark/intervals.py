"""Confidence intervals of the metrics by a stratified bootstrap of the test images."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from normscope.benchmark.metrics import IsAnomaly, Scores, check

AT_ONCE = 500_000
"""Images times resamples in a chunk, which then takes about 50 MB."""

Counts = NDArray[np.int64]
Values = NDArray[np.float64]


def intervals(
    scores: Scores, is_anomaly: IsAnomaly, *, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of the metrics of the benchmark; normal images and anomalies are resampled separately.

    They account for the choice of test images and not of the seed, which may move a metric further. Where the scores
    of normal images and anomalies do not overlap, no resample is worse, and the interval has no width.
    """
    check(scores, is_anomaly)
    if resamples < 1 or not 0 < level < 1:
        raise ValueError(f"resamples {resamples} must be 1 or more and level {level} between 0 and 1")
    drawn = list(resampled_metrics(scores, is_anomaly.astype(bool), resamples, np.random.default_rng(seed)))
    tails = [(1 - level) / 2, (1 + level) / 2]
    found = {name: np.quantile(np.concatenate([one[name] for one in drawn]), tails) for name in drawn[0]}
    return {name: (float(low), float(high)) for name, (low, high) in found.items()}


def resampled_metrics(
    scores: Scores, is_anomaly: NDArray[np.bool_], resamples: int, random: np.random.Generator
) -> Iterator[Mapping[str, Values]]:
    """The metrics of all resamples, in chunks."""
    thresholds, place = np.unique(-scores, return_inverse=True)  # from the highest score down, equal ones as one
    chunk = max(1, AT_ONCE // len(scores))
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        normal = resampled(place[~is_anomaly], len(thresholds), rows, random)
        anomalies = resampled(place[is_anomaly], len(thresholds), rows, random)
        yield from_counts(normal, anomalies)


def resampled(places: Counts, thresholds: int, rows: int, random: np.random.Generator) -> Counts:
    """How many images of each resample lie at each threshold, [rows, thresholds]: multinomial."""
    drawn = places[random.integers(len(places), size=(rows, len(places)))]
    drawn += thresholds * np.arange(rows)[:, None]
    return np.bincount(drawn.ravel(), minlength=rows * thresholds).reshape(rows, thresholds)


def from_counts(normal: Counts, anomalies: Counts) -> dict[str, Values]:
    """`METRICS` [rows] of images counted at each threshold [rows, thresholds], the highest score first."""
    false, true = normal.cumsum(1), anomalies.cumsum(1)
    all_normal, all_anomalies = false[:, -1], true[:, -1]
    # An anomaly beats the normal images below its threshold, and half of those at it.
    twice_the_wins = (anomalies * (2 * (all_normal[:, None] - false) + normal)).sum(1)
    precision = true / np.maximum(true + false, 1)
    false_share, true_share = false / all_normal[:, None], true / all_anomalies[:, None]
    enough = (true_share >= 0.95).argmax(1)
    return {
        "auroc": twice_the_wins / (2 * all_normal * all_anomalies),
        "auprc": (anomalies * precision).sum(1) / all_anomalies,
        "fpr95": np.take_along_axis(false_share, enough[:, None], 1)[:, 0],
        "tpr_at_fpr_01": np.where(false_share <= 0.01, true_share, 0).max(1),
        "tpr_at_fpr_05": np.where(false_share <= 0.05, true_share, 0).max(1),
    }
