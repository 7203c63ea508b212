import math

import pytest
import torch

from normscope.scoring.survival import fit_survival, survival


@pytest.fixture
def normal():
    return torch.distributions.Exponential(0.5).sample((4000, 1)).double()


def test_surprisal_of_a_score_is_minus_the_log_of_the_share_above_it(normal):
    reference = fit_survival(normal)
    for level in (0.5, 2.0, 5.0, 20.0):  # an exponential law of rate 1/2: −log P(score > s) = s / 2
        assert float(survival(torch.tensor([[level]]), reference)) == pytest.approx(level / 2, rel=0.1)


def test_it_never_falls_and_goes_on_beyond_the_highest(normal):
    x = torch.linspace(-3, 100, 500)[:, None]
    nats = survival(x, fit_survival(normal))
    assert (nats.diff(dim=0) >= 0).all()
    assert float(nats[0]) == 0
    assert float(nats[-1]) > math.log(4000)


def test_parts_are_independent(normal):
    both = torch.cat([normal, 100 * normal.flip(0)], 1)
    reference = fit_survival(both)
    at = torch.tensor([[3.0, 300.0]]).double()
    assert torch.allclose(survival(at, reference)[0, 0], survival(at, reference)[0, 1], rtol=1e-4)


def test_scores_that_are_all_equal_stay_finite():
    reference = fit_survival(torch.ones(9, 1))
    assert survival(torch.tensor([[0.0], [1.0], [2.0]]), reference).isfinite().all()
