"""Scores as surprisals in nats."""

import torch

from normscope.scoring.survival import fit_survival, survival


def test_nats_are_minus_log_of_the_share_that_reaches_a_score():
    normal = torch.empty(2000, 1).exponential_(generator=torch.Generator().manual_seed(0))
    asked = torch.tensor([[0.5], [1.0], [2.0], [4.0], [6.0]])
    torch.testing.assert_close(survival(asked, fit_survival(normal)), asked, rtol=0.1, atol=0.05)


def test_few_and_equal_scores_have_finite_nats():
    for normal in (torch.zeros(1, 2), torch.ones(5, 2)):
        assert survival(torch.tensor([[-1.0, 1e6]]), fit_survival(normal)).isfinite().all()
