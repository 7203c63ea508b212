import numpy as np
import pytest
from scipy.stats import expon, genpareto, kstest, lognorm, norm

from normscope.tail import LEAST, fit_p_value, fit_tail, survival


@pytest.mark.parametrize(("m", "factor"), [(24, 10), (50, 5), (100, 4), (200, 3), (400, 3)])
@pytest.mark.parametrize("scores", [norm(), expon(), lognorm(1)])
def test_the_chance_of_a_rare_score_is_right_within_a_factor(scores, m, factor):
    rng, rare = np.random.default_rng(m), np.array([scores.ppf(0.999)])
    tails = [fit_tail(np.sort(scores.rvs(m, random_state=rng))) for _ in range(200)]
    estimates = [tail.exceeded(rare)[0] for tail in tails if tail]
    assert len(estimates) > 0.9 * len(tails)
    assert 0.001 / factor < np.median(estimates) < 0.001 * factor


def test_parameters_are_recovered():
    scores = np.sort(genpareto(0.25, scale=2).rvs(20_000, random_state=0))
    tail = fit_tail(scores)
    assert tail.above == pytest.approx(0.1, abs=0.001)
    assert tail.start == np.sort(scores)[17_999]
    assert tail.shape == pytest.approx(0.25, abs=0.1)  # 3 standard errors of 2,000 excesses
    assert tail.scale == pytest.approx(2 + 0.25 * tail.start, rel=0.1)  # of what exceeds a start


def test_a_short_tail_has_no_end():
    tail = fit_tail(np.linspace(0, 1, 50))
    assert tail.shape == 1 / 8
    assert (tail.exceeded(np.array([2.0, 5.0])) > 0).all()
    assert tail.exceeded(np.array([np.inf])) == LEAST


@pytest.mark.parametrize(
    "scores",
    [
        np.arange(19.0),
        np.ones(100),
        np.r_[np.arange(90.0), np.full(10, 90.0)],
        np.r_[np.random.default_rng(0).normal(size=380), np.random.default_rng(1).normal(20, 1, 20)],
    ],
    ids=["few", "equal", "the upper ones equal", "two kinds"],
)
def test_scores_that_no_tail_fits_have_none(scores):
    assert fit_tail(np.sort(scores)) is None


def test_survival_and_test_are_those_of_scipy():
    over = np.sort(expon().rvs(50, random_state=0))
    ours = survival(np.r_[-1.0, over], 0.2, 0.7)
    assert ours == pytest.approx(genpareto.sf(np.r_[-1.0, over], 0.2, scale=0.7))
    assert fit_p_value(1 - ours[1:]) == pytest.approx(kstest(over, genpareto(0.2, scale=0.7).cdf).pvalue, rel=0.01)
