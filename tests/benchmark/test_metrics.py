import numpy as np
import pytest

from normscope.benchmark import metrics
from normscope.benchmark.metrics import auprc, auroc, fpr95, tpr_at_fpr

METRICS = list(metrics.METRICS.values())


def test_four_images_by_hand():
    scores, is_anomaly = np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])
    assert auroc(scores, is_anomaly) == 3 / 4  # of the four pairs, only 0.35 against 0.4 is wrong
    assert auprc(scores, is_anomaly) == pytest.approx(1 / 2 * 1 + 1 / 2 * 2 / 3)  # precision 1 at 0.8, 2/3 at 0.35
    assert fpr95(scores, is_anomaly) == 1 / 2  # both anomalies are flagged only from 0.35 down, and 0.4 with them


def test_perfect_and_inverted():
    scores, is_anomaly = np.arange(10.0), np.arange(10) >= 6
    assert [metric(scores, is_anomaly) for metric in METRICS] == [1, 1, 0, 1, 1]
    assert auroc(-scores, is_anomaly) == 0
    assert fpr95(-scores, is_anomaly) == 1


def test_equal_scores_say_nothing():
    is_anomaly = np.array([1, 1, 0, 0, 0])
    assert [metric(np.ones(5), is_anomaly) for metric in METRICS] == [0.5, 2 / 5, 1, 0, 0]


def test_a_tie_counts_half_in_any_order():
    scores, is_anomaly = np.array([2.0, 1.0, 1.0, 0.0]), np.array([True, True, False, False])
    assert auroc(scores, is_anomaly) == 3.5 / 4
    assert auprc(scores, is_anomaly) == pytest.approx(1 / 2 * 1 + 1 / 2 * 2 / 3)
    assert fpr95(scores, is_anomaly) == 1 / 2
    for order in ([3, 2, 1, 0], [0, 2, 1, 3], [2, 0, 3, 1]):
        for metric in METRICS:
            assert metric(scores[order], is_anomaly[order]) == metric(scores, is_anomaly)


def test_fpr95_lets_one_anomaly_in_twenty_go():
    # Anomalies 1..20 and normal images at 0.5, 1.5 and 2.5: from score 2 up, 19 anomalies and one normal image.
    scores = np.concatenate([np.arange(1.0, 21.0), [0.5, 1.5, 2.5]])
    is_anomaly = np.arange(23) < 20
    assert fpr95(scores, is_anomaly) == 1 / 3


def test_the_true_positive_rate_at_a_false_positive_rate_by_hand():
    # Normal images 0..99, anomalies between them: above 98.5 lie one normal image and two anomalies of four.
    scores, is_anomaly = np.concatenate([np.arange(100.0), [50.5, 95.5, 98.5, 200]]), np.arange(104) >= 100
    assert tpr_at_fpr(scores, is_anomaly, 0) == 1 / 4
    assert tpr_at_fpr(scores, is_anomaly, 0.01) == 2 / 4
    assert tpr_at_fpr(scores, is_anomaly, 0.05) == 3 / 4
    assert tpr_at_fpr(scores, is_anomaly, 0.049) == 3 / 4
    assert tpr_at_fpr(scores, is_anomaly, 1) == 1
    assert [metrics.METRICS[f"tpr_at_fpr_{rate}"](scores, is_anomaly) for rate in ("01", "05")] == [2 / 4, 3 / 4]


@pytest.mark.parametrize("metric", METRICS)
def test_rescaled_scores_rank_alike(metric):
    scores = np.random.default_rng(0).normal(size=50)
    is_anomaly = np.arange(50) % 3 == 0
    assert metric(scores * 8 + 2, is_anomaly) == metric(scores, is_anomaly)


@pytest.mark.parametrize("metric", METRICS)
def test_what_cannot_be_measured_raises(metric):
    both = np.array([True, False, True])
    with pytest.raises(ValueError, match="both normal images and anomalies"):
        metric(np.arange(3.0), np.ones(3, bool))
    with pytest.raises(ValueError, match="both normal images and anomalies"):
        metric(np.arange(3.0), np.zeros(3, bool))
    with pytest.raises(ValueError, match="both normal images and anomalies"):
        metric(np.array([]), np.array([], bool))
    with pytest.raises(ValueError, match="1 of 3 scores are not finite"):
        metric(np.array([0.0, np.nan, 1.0]), both)
    with pytest.raises(ValueError, match="2 of 3 scores are not finite"):
        metric(np.array([-np.inf, np.inf, 1.0]), both)
    with pytest.raises(ValueError, match="one vector each"):
        metric(np.arange(2.0), both)
    with pytest.raises(ValueError, match="0 and 1 only"):
        metric(np.arange(3.0), np.array([0, 1, 2]))
