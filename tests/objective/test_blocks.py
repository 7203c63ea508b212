from functools import partial

import pytest
import torch

from normscope.objective import blocks
from normscope.objective.blocks import MEANS_OF_ROWS, Blocks, contrasted
from normscope.objective.critics import contrast, dot, global_to_local
from normscope.objective.information import donsker_varadhan, infonce
from normscope.objective.trade_off import TradeOff

CRITIC = partial(dot, scale=2.0)


@pytest.fixture
def codes():
    return torch.randn(22, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("information", MEANS_OF_ROWS)
@pytest.mark.parametrize("most", [1, 66, 150])  # pairs: blocks of 1, 3 and 6 rows, the last of 4
def test_value_and_gradient_are_those_of_all_pairs(information, most, codes, monkeypatch):
    trade_off, entropy = TradeOff(information, beta=0.0), torch.zeros(())
    plain, record = trade_off([contrasted(codes, codes, CRITIC, information)], entropy, 0.0)
    monkeypatch.setattr(blocks, "MOST_PAIRS", most)
    pairs = contrasted(codes, codes, CRITIC, information)
    assert isinstance(pairs, Blocks)
    loss, told = trade_off([pairs], entropy, 0.0)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-12)
    assert told["information"].item() == pytest.approx(record["information"].item(), abs=1e-6)
    (whole,), (ours,) = (torch.autograd.grad(one, codes) for one in (plain, loss))
    assert torch.allclose(ours, whole, rtol=1e-9, atol=1e-12)


def test_rows_of_a_contrast_are_those_of_the_whole(codes):
    scores = CRITIC(codes, codes)
    for ours, whole in zip(contrast(scores[7:12], first=7), contrast(scores), strict=True):
        assert torch.equal(ours, whole[7:12])


def test_maps_may_be_what_codes_are_compared_with(codes, monkeypatch):
    maps = torch.randn(22, 5, 2, 2, dtype=torch.float64)
    critic = partial(global_to_local, scale=2.0)
    monkeypatch.setattr(blocks, "MOST_PAIRS", 100)
    value, mean = contrasted(codes, maps, critic, infonce).evaluated(infonce)
    positive, negative = contrast(critic(codes, maps))
    assert value.item() == pytest.approx(infonce(positive, negative).item())
    assert mean.item() == pytest.approx(torch.cat([positive[:, None], negative], 1).mean().item())


def test_what_needs_all_negatives_at_once_gets_them(codes, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_PAIRS", 1)
    assert not isinstance(contrasted(codes, codes, CRITIC, donsker_varadhan), Blocks)


def test_small_batches_are_evaluated_at_once(codes):
    assert not isinstance(contrasted(codes, codes, CRITIC, infonce), Blocks)
