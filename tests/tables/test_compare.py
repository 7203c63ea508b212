import math

import numpy as np
import pytest
from scipy.stats import ttest_ind

from normscope.benchmark.measurement import checked
from normscope.errors import DatasetError
from normscope.tables import compare as module
from normscope.tables.compare import rank_test


def compare(before, after):
    return module.compare(before, after, "auroc")


def measured(value: float, normal: int = 0, seed: int = 0, method: str = "knn", interval=None, error=None, **settings):
    given = {"dataset": "mnist", "method": method, "normal": normal, "seed": seed, "budget": 60.0, "error": error}
    given |= {"settings": settings, "metrics": {"auroc": value}, "health": "ok"}
    return checked(given | ({"intervals": {"auroc": interval}} if interval else {}), "file line 1")


def seeds(values, normal: int = 0, **settings):
    return [measured(float(value), normal, seed, **settings) for seed, value in enumerate(values)]


def only(before, after):
    (found,), _ = compare(before, after)
    return found


def test_differences_are_after_minus_before_in_per_cent():
    found = only([measured(0.8), measured(0.7, 1)], [measured(0.9, k=3), measured(0.6, 1, k=3)])
    assert [pair.difference() for pair in found.pairs] == pytest.approx([10, -10])
    assert found.difference() == pytest.approx(0)
    assert (found.before.chosen(), found.after.chosen()) == ({}, {"k": 3})


def test_one_cell_is_judged_as_by_a_t_test():
    random, verdicts = np.random.default_rng(1), set()
    for shift in np.linspace(0, 0.05, 20):
        before, after = random.normal(0.8, 0.01, 4), random.normal(0.8 + shift, 0.01, 5)
        found = only(seeds(before), seeds(after))
        expected = "exceeds the seeds" if ttest_ind(before, after).pvalue < 0.05 else "within the seeds"
        assert found.verdict_of(found.pairs[0]) == found.verdict() == expected
        assert found.freedom == 7
        verdicts.add(expected)
    assert len(verdicts) == 2


def test_the_spread_is_pooled_over_cells_and_files():
    before = [*seeds([0.80, 0.82]), *seeds([0.70, 0.70, 0.73], 1)]
    after = [*seeds([0.90]), *seeds([0.71, 0.75], 1)]
    found = only(before, after)
    squares = 2 * 1**2 + (1 + 1 + 4) + 2 * 2**2  # deviations from each cell's mean, in per cent
    assert found.freedom == 1 + 2 + 0 + 1
    assert found.spread == pytest.approx(math.sqrt(squares / 4))
    # t(0.975, 4) = 2.776: ten times over the first cell's standard error of 2 × √1.5, and not over the second's.
    assert found.verdict_of(found.pairs[0]) == "exceeds the seeds"
    assert found.verdict_of(found.pairs[1]) == "within the seeds"


def test_a_mean_over_classes_is_surer_than_a_class():
    before = [one for normal in range(10) for one in seeds([0.80, 0.82], normal)]
    after = [one for normal in range(10) for one in seeds([0.82, 0.84], normal)]
    found = only(before, after)
    assert {found.verdict_of(pair) for pair in found.pairs} == {"within the seeds"}  # 2 against 2.09 × √2
    assert found.verdict() == "exceeds the seeds"  # against that divided by √10


def test_noise_alone_exceeds_the_seeds_in_one_case_of_twenty():
    random = np.random.default_rng(0)
    judged = [only(seeds(random.normal(0.8, 0.01, 3)), seeds(random.normal(0.8, 0.01, 3))) for _ in range(1000)]
    share = np.mean([one.verdict() == "exceeds the seeds" for one in judged])
    assert share == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 1000))


def test_seeds_that_change_nothing_make_every_difference_count():
    found = only(seeds([0.8, 0.8]), seeds([0.8, 0.8]))
    assert (found.spread, found.verdict()) == (0, "within the seeds")
    assert only(seeds([0.8, 0.8]), seeds([0.801, 0.801])).verdict() == "exceeds the seeds"


def test_one_seed_each_cannot_tell_and_shows_the_intervals_of_the_images():
    found = only([measured(0.8, interval=[0.78, 0.82])], [measured(0.9, interval=[0.88, 0.92])])
    assert (found.spread, found.verdict()) == (None, "unknown: one seed each")
    assert found.verdict_of(found.pairs[0]) == "unknown: one seed each"
    assert found.pairs[0].intervals_apart is True
    for interval, expected in (([0.82, 0.92], False), ([0.7, 0.9], False), ([0.7, 0.77], True), (None, None)):
        assert (
            only([measured(0.8, interval=[0.78, 0.82])], [measured(0.9, interval=interval)]).pairs[0].intervals_apart
            is expected
        )


def test_with_more_seeds_the_intervals_say_nothing():
    single = [measured(0.8, interval=[0.78, 0.82]), measured(0.8, seed=1, interval=[0.78, 0.82])]
    assert only(single, single[:1]).pairs[0].intervals_apart is None


def test_cells_of_one_file_are_counted_once_however_many_seeds():
    before = [
        *seeds([0.8, 0.9]),
        *seeds([0.8, 0.9], 1),
        measured(0.5, 2, error="MemoryError: "),
        measured(0.7, method="pca"),
    ]
    after = [measured(0.8), measured(0.8, 2), measured(0.8, 3)]
    found, unpaired = compare(before, after)
    assert [pair.normal for pair in found[0].pairs] == [0]
    assert (unpaired.before, unpaired.after) == (2, 2)
    found, unpaired = compare([measured(0.8)], [measured(0.8, 1)])
    assert (found, unpaired.before, unpaired.after) == ([], 1, 1)


def test_of_several_variants_the_equal_ones_are_paired():
    found, unpaired = compare([measured(0.8, k=1), measured(0.7, k=2)], [measured(0.9, k=2), measured(0.6, k=3)])
    assert [(one.before.chosen(), one.difference()) for one in found] == [({"k": 2}, pytest.approx(20))]
    assert (unpaired.before, unpaired.after) == (1, 1)


def test_several_variants_and_none_the_same_are_refused():
    with pytest.raises(DatasetError, match="knn on mnist has 2 variants before and 1 after, and none is the same"):
        compare([measured(0.8, k=1), measured(0.7, k=2)], [measured(0.6, k=3)])


def test_the_rank_test():
    assert rank_test([1, 2, 3, 4, 5, 6]) == pytest.approx(2 / 2**6)  # all of one sign
    assert rank_test([1, 2, 3, 4, 5, 0, 0]) is None
    assert rank_test([]) is None
    assert rank_test([0] * 20) is None
    assert rank_test([1, -1, 2, -2, 3, -3]) == pytest.approx(1)
    assert rank_test([0.5] * 8) < 0.05
