import numpy as np
import pytest
from scipy.ndimage import label
from sklearn.metrics import roc_auc_score

from normscope.benchmark.pixels import pixel_auroc, pro


def brute_force(maps: np.ndarray, masks: np.ndarray, limit: float = 0.3) -> float:
    """Every threshold and every region in turn, then the area on a grid so fine that its corners do not matter."""
    regions = [
        (number, part)
        for number, mask in enumerate(masks)
        for parts, count in [label(mask, np.ones((3, 3)))]
        for part in (parts == k for k in range(1, count + 1))
    ]
    x, y = [0.0], [0.0]
    for threshold in np.unique(maps)[::-1]:
        flagged = maps >= threshold
        x.append(flagged[~masks].mean())
        y.append(np.mean([flagged[number][part].mean() for number, part in regions]))
    fine = (np.arange(200_000) + 0.5) / 200_000 * limit
    return float(np.interp(fine, x, y).mean())


def blobs(levels: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    masks = np.zeros((4, 9, 11), bool)
    masks[0, 1:4, 2:7] = masks[0, 6, 6] = masks[1, 8, 10] = masks[2, :, :2] = True  # and nothing in the last
    return np.round((random.normal(size=masks.shape) + masks) * levels) / levels, masks


@pytest.mark.parametrize(("levels", "limit"), [(1, 0.05), (1, 1.0), (3, 0.3), (1000, 0.05), (1000, 1.0)])
def test_as_by_brute_force(levels, limit):
    for seed in range(3):
        maps, masks = blobs(levels, seed)
        assert pro(maps, masks, limit) == pytest.approx(brute_force(maps, masks, limit), abs=1e-4)
        assert pixel_auroc(maps, masks) == pytest.approx(roc_auc_score(masks.ravel(), maps.ravel()), rel=1e-12)


def test_perfect_inverted_and_constant():
    masks = blobs(1, 0)[1]
    maps = masks.astype(np.float32)
    assert (pixel_auroc(maps, masks), pro(maps, masks)) == pytest.approx((1, 1))
    assert (pixel_auroc(-maps, masks), pro(-maps, masks)) == pytest.approx((0, 0))
    # One threshold: a straight line to (1, 1), whose area up to 0.3 is 0.3² / 2, divided by 0.3.
    assert (pixel_auroc(0 * maps, masks), pro(0 * maps, masks)) == pytest.approx((0.5, 0.15))


def test_random_maps_are_as_good_as_constant_ones():
    masks = np.zeros((20, 64, 64), bool)
    masks[:10, 10:30, 10:30] = True
    maps = np.random.default_rng(0).random(masks.shape)
    assert pixel_auroc(maps, masks) == pytest.approx(0.5, abs=0.02)
    assert pro(maps, masks) == pytest.approx(0.15, abs=0.01)


def test_a_small_region_counts_as_much_as_a_large_one():
    masks = np.zeros((1, 10, 10), bool)
    masks[0, :4, :4] = masks[0, 9, 9] = True
    large, small = masks.astype(float), masks.astype(float)
    large[0, 9, 9] = small[0, :4, :4] = -1  # found last
    assert pro(large, masks) == pytest.approx(0.5)
    assert pro(small, masks) == pytest.approx(0.5)
    assert pixel_auroc(large, masks) == pytest.approx(16 / 17)
    assert pixel_auroc(small, masks) == pytest.approx(1 / 17)


def test_pixels_that_touch_at_a_corner_are_one_region():
    masks = np.zeros((1, 6, 6), bool)
    masks[0, [0, 1, 5], [0, 1, 5]] = True
    maps = masks.astype(float)
    maps[0, 1, 1] = -1
    assert pro(maps, masks) == pytest.approx((1 / 2 + 1) / 2)  # half of the one, all of the other


def test_an_image_without_anomaly_adds_normal_pixels():
    masks = np.zeros((2, 2, 2), bool)
    masks[0, 0, 0] = True
    maps = np.zeros((2, 2, 2))
    maps[0, 0, 0], maps[1] = 1, 2  # all four of the other image are above
    assert pixel_auroc(maps, masks) == pytest.approx(3 / 7)
    assert pro(maps, masks) == 0  # found only once 4 of 7 normal pixels are flagged


def test_the_limit_is_reached_by_interpolation():
    masks = np.array([[[True, False, False]]])
    maps = np.array([[[1.0, 1.0, 0.0]]])  # from (0, 0) straight to (1/2, 1)
    assert pro(maps, masks, 0.25) == pytest.approx(0.25)
    assert pro(maps, masks, 0.5) == pytest.approx(0.5)
    assert pro(maps, masks, 1.0) == pytest.approx(0.75)


@pytest.mark.parametrize("measure", [pixel_auroc, pro])
def test_what_cannot_be_measured(measure):
    maps, masks = blobs(1, 0)
    for wrong, where, message in (
        (maps, np.zeros_like(masks), "both normal and anomalous pixels"),
        (maps, np.ones_like(masks), "both normal and anomalous pixels"),
        (maps[:2], masks, r"must both be \[n, h, w\]"),
        (maps[0], masks[0], r"must both be \[n, h, w\]"),
        (np.where(masks, np.nan, maps), masks, "not finite"),
        (maps, masks.astype(int), "give booleans"),
    ):
        with pytest.raises(ValueError, match=message):
            measure(wrong, where)


@pytest.mark.parametrize("limit", [0.0, -0.1, 1.1, float("nan")])
def test_no_such_limit(limit):
    with pytest.raises(ValueError, match="give a rate above 0, at most 1"):
        pro(*blobs(1, 0), limit)
