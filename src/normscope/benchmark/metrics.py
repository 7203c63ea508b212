"""How well scores separate anomalies from normal images; anomalies are the positives, higher scores more anomalous.

Each takes scores [n] and is_anomaly [n] (bool or 0/1), and treats equal scores as one: no order of the images and no
tie-break changes the result.
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

Scores = NDArray[np.floating]
IsAnomaly = NDArray[np.bool_] | NDArray[np.integer]


def auroc(scores: Scores, is_anomaly: IsAnomaly) -> float:
    """Area under the ROC curve: how often an anomaly outscores a normal image, ties counting half."""
    check(scores, is_anomaly)
    return float(roc_auc_score(is_anomaly, scores))


def auprc(scores: Scores, is_anomaly: IsAnomaly) -> float:
    """Area under the precision-recall curve as average precision, without interpolation; chance is the anomaly rate."""
    check(scores, is_anomaly)
    return float(average_precision_score(is_anomaly, scores))


def fpr95(scores: Scores, is_anomaly: IsAnomaly) -> float:
    """False-positive rate at 95 % true-positive rate: normal images flagged once 95 % of the anomalies are.

    At the highest threshold that flags at least 95 %, without interpolation; lower is better.
    """
    check(scores, is_anomaly)
    false_positive_rate, true_positive_rate, _ = roc_curve(is_anomaly, scores, drop_intermediate=False)
    return float(false_positive_rate[true_positive_rate >= 0.95].min())


def tpr_at_fpr(scores: Scores, is_anomaly: IsAnomaly, rate: float) -> float:
    """True-positive rate at a false-positive rate: anomalies flagged while at most that share of normal images is.

    At the lowest such threshold, without interpolation. Labels of test images choose it; what a user gets, whose
    threshold comes from normal images alone, is measured by `normscope evaluate`.
    """
    check(scores, is_anomaly)
    false_positive_rate, true_positive_rate, _ = roc_curve(is_anomaly, scores, drop_intermediate=False)
    return float(true_positive_rate[false_positive_rate <= rate].max())


def tpr_at_fpr_01(scores: Scores, is_anomaly: IsAnomaly) -> float:
    return tpr_at_fpr(scores, is_anomaly, 0.01)


def tpr_at_fpr_05(scores: Scores, is_anomaly: IsAnomaly) -> float:
    return tpr_at_fpr(scores, is_anomaly, 0.05)


METRICS = {
    "auroc": auroc,
    "auprc": auprc,
    "fpr95": fpr95,
    "tpr_at_fpr_01": tpr_at_fpr_01,
    "tpr_at_fpr_05": tpr_at_fpr_05,
}
"""Those of every cell of the benchmark, by name."""


def check(scores: Scores, is_anomaly: IsAnomaly) -> None:
    if scores.ndim != 1 or scores.shape != is_anomaly.shape:
        raise ValueError(f"scores {scores.shape} and is_anomaly {is_anomaly.shape} must be one vector each, as long")
    if not np.isfinite(scores).all():
        raise ValueError(f"{(~np.isfinite(scores)).sum()} of {scores.size} scores are not finite")
    if not np.isin(is_anomaly, (0, 1)).all():
        raise ValueError("is_anomaly must hold booleans or 0 and 1 only")
    if is_anomaly.all() or not is_anomaly.any():
        raise ValueError("both normal images and anomalies are needed to compare their scores")
