"""How well heat maps find anomalous pixels: maps float [n, h, w], higher more anomalous; masks bool [n, h, w].

Exact: every distinct value is a threshold. Normal pixels are sorted once, so that 500 maps of 256 × 256 take a few
seconds and the memory of one copy.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import label

Maps = NDArray[np.floating]
Masks = NDArray[np.bool_]
Values = NDArray[np.float64]


def pixel_auroc(maps: Maps, masks: Masks) -> float:
    """Area under the ROC curve over all pixels of all images, those without an anomaly included."""
    check(maps, masks)
    anomalous = int(masks.sum())
    return area(*curve(maps, masks, np.full(anomalous, 1 / anomalous)), limit=1.0)


def pro(maps: Maps, masks: Masks, most_false_positives: float = 0.3) -> float:
    """Per-region overlap (Bergmann et al. 2021): the mean share of each anomalous region that is found, over the
    false-positive rates of normal pixels from 0 to `most_false_positives`, at most 1.

    A region is a connected part of a mask, corners included; all regions have the same weight. A constant map gets
    half of `most_false_positives`.
    """
    check(maps, masks)
    if not 0 < most_false_positives <= 1:
        raise ValueError(f"most_false_positives is {most_false_positives}; give a rate above 0, at most 1")
    return area(*curve(maps, masks, region_weights(masks)), limit=most_false_positives)


def region_weights(masks: Masks) -> Values:
    """The weight of each anomalous pixel in the mean overlap: the same sum for every region, 1 for all together."""
    weights = []
    for mask in masks[masks.any((1, 2))]:
        parts = label(mask, np.ones((3, 3)))[0][mask]
        weights.append(1 / np.bincount(parts)[parts])
    every = np.concatenate(weights)
    return every / every.sum()  # each region sums to one, so the sum is their number


def curve(maps: Maps, masks: Masks, weights: Values) -> tuple[Values, Values]:
    """False-positive rate and weight found, from (0, 0) to (1, 1), the highest threshold first.

    It rises at the values of anomalous pixels only: two points for each, at the normal pixels above the value and at
    those from the value on.
    """
    normal = np.sort(maps[~masks])
    thresholds, place = np.unique(maps[masks], return_inverse=True)
    found = np.bincount(place, weights)[::-1].cumsum()
    above = len(normal) - np.searchsorted(normal, thresholds[::-1], side="right")
    from_there = len(normal) - np.searchsorted(normal, thresholds[::-1], side="left")
    x = np.concatenate([[0], np.stack([above, from_there], 1).ravel(), [len(normal)]]) / len(normal)
    y = np.concatenate([[0, 0], found.repeat(2)])
    return x, y


def area(x: Values, y: Values, limit: float) -> float:
    """Under the curve from 0 to `limit`, divided by that width."""
    inside = int(np.searchsorted(x, limit, side="right"))
    end = np.interp(limit, x, y)
    x, y = np.append(x[:inside], limit), np.append(y[:inside], end)
    return float((np.diff(x) * (y[1:] + y[:-1])).sum() / 2 / limit)


def check(maps: Maps, masks: Masks) -> None:
    if maps.ndim != 3 or maps.shape != masks.shape:
        raise ValueError(f"maps {maps.shape} and masks {masks.shape} must both be [n, h, w], and alike")
    if masks.dtype != np.bool_:
        raise ValueError(f"masks are {masks.dtype}; give booleans")
    if not np.isfinite(maps).all():
        raise ValueError("some values of the maps are not finite")
    if masks.all() or not masks.any():
        raise ValueError("both normal and anomalous pixels are needed to compare their values")
