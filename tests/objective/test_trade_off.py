from math import log

import pytest
import torch

from normscope.objective import information as estimators
from normscope.objective.critics import contrast, dot
from normscope.objective.entropy import gaussian
from normscope.objective.information import donsker_varadhan, infonce
from normscope.objective.trade_off import TradeOff
from normscope.training.steps import update

ESTIMATORS = [getattr(estimators, name) for name in estimators.__all__]


def scores(seed=0, n=6, m=10):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, generator=generator) + 1, torch.randn(n, m, generator=generator)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_loss_is_minus_information_plus_beta_times_entropy(estimator):
    pair, entropy = scores(), torch.tensor(0.7)
    loss, record = TradeOff(estimator, beta=20.0)([pair], entropy, progress=0.0)
    assert loss == -(estimator(*pair) - 20.0 * entropy)
    assert (record["loss"], record["entropy"], record["beta"]) == (loss, entropy, 20.0)


def test_critics_add_up():
    first, second = scores(1), scores(2, n=4, m=3)
    loss, record = TradeOff(infonce, beta=0.0, critics=2)([first, second], torch.tensor(5.0), 0.0)
    assert -loss == infonce(*first) + infonce(*second)
    assert record["information"] == pytest.approx(-loss.item())


@pytest.mark.parametrize(("progress", "beta"), [(0.0, 0.0), (0.1, 2.0), (0.4, 8.0), (0.99, 8.0)])
def test_beta_rises_over_the_ramp_and_stays(progress, beta):
    pair, entropy = scores(), torch.tensor(0.5)
    loss, record = TradeOff(infonce, beta=8.0, ramp=0.4)([pair], entropy, progress)
    assert record["beta"] == pytest.approx(beta)
    assert loss == pytest.approx((beta * entropy - infonce(*pair)).item())


def entropy_to_lacking(beta, start, steps=200):
    """Entropy over what InfoNCE lacks to log(2n − 1), at the end of training a linear encoder on nothing but images."""
    generator = torch.Generator().manual_seed(0)
    weight = (0.3 * torch.randn(16, 8, generator=generator)).requires_grad_()
    trade_off, optimizer = TradeOff(infonce, beta), torch.optim.Adam([weight], 0.03)
    trade_off.balance.fill_(start)
    ratios = []
    for step in range(steps):
        x = torch.randn(32, 16, generator=generator).repeat(2, 1)
        z = (x + 0.3 * torch.randn(x.shape, generator=generator)) @ weight
        loss, record = trade_off([contrast(dot(z, z, 8**0.5))], 3 * gaussian(z), step / steps)
        update(optimizer, loss)
        ratios.append((record["entropy"] / (log(63) - record["information"])).item())
    return sum(ratios[-20:]) / 20


@pytest.mark.parametrize("start", [1.0, 0.1])
def test_auto_brings_both_losses_to_a_similar_scale_from_either_side(start):
    fixed = entropy_to_lacking(start, start)
    assert fixed < 0.1 if start == 1.0 else fixed > 3
    assert 0.6 < entropy_to_lacking("auto", start) < 1.7


def test_auto_moves_by_at_most_a_hundredth_a_step_and_towards_balance():
    trade_off = TradeOff(infonce, "auto")
    trade_off([scores()], torch.tensor(1e4), 0.0)
    assert trade_off.balance == pytest.approx(1.01, abs=1e-4)
    for _ in range(2):
        trade_off([scores()], torch.tensor(-3.0), 0.0)
    assert trade_off.balance == pytest.approx(0.99, abs=1e-3)
    trade_off.balance.fill_(1e3)
    trade_off([scores()], torch.tensor(1e4), 0.0)
    assert trade_off.balance == 1e3


def test_auto_begins_at_one_and_stays_where_it_is_outside_training():
    trade_off = TradeOff(infonce, "auto").eval()
    _, record = trade_off([scores()], torch.tensor(1e4), 0.0)
    assert record["beta"] == 1
    assert trade_off.balance == 1


def test_auto_with_a_ramp_weighs_the_balance_found():
    trade_off = TradeOff(infonce, "auto", ramp=0.5)
    trade_off.balance.fill_(4.0)
    assert trade_off([scores()], torch.tensor(1.0), 0.25)[1]["beta"] == 2.0


def test_what_is_found_while_training_is_kept_in_the_state():
    trade_off = TradeOff(donsker_varadhan, "auto", critics=2)
    for seed in range(5):
        trade_off([scores(seed), scores(seed + 9)], torch.tensor(1e3), 0.0)
    again = TradeOff(donsker_varadhan, "auto", critics=2)
    again.load_state_dict(trade_off.state_dict())
    assert again.balance == trade_off.balance > 1
    # The gradient, which the average corrects, tells whether it was taken up; the value would not.
    first, second = (gradient(one) for one in (trade_off, again))
    assert torch.equal(first, second)
    assert not torch.allclose(first, gradient(TradeOff(donsker_varadhan, "auto", critics=2)))


def gradient(trade_off):
    positive, negative = scores(3)
    negative = (4 * negative).requires_grad_()
    loss, _ = trade_off([(positive, negative), scores(4)], torch.tensor(0.0), 0.0)
    return torch.autograd.grad(loss, negative)[0]


def test_the_moving_average_of_donsker_varadhan_follows_each_critic():
    trade_off = TradeOff(donsker_varadhan, 0.0, critics=2)
    assert not trade_off.averaged.any()
    for level in (1.0, 3.0):
        pairs = [(torch.zeros(2), torch.full((2, 3), level)), (torch.zeros(2), torch.full((2, 3), -level))]
        trade_off(pairs, torch.tensor(0.0), 0.0)
    high, low = trade_off.log_averages
    assert 1 < high < 3
    assert -3 < low < -1


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_constant_critic_has_any_information(estimator):
    assert gained(estimator, 0.0) == pytest.approx(0, abs=1e-6)
    assert all(gained(estimator, score) < 1e-5 for score in (-20.0, -1.0, 1.0, 20.0))


def gained(estimator, score):
    pairs = [(torch.full((4,), score), torch.full((4, 7), score))] * 2
    return TradeOff(estimator, 3.0, critics=2)(pairs, torch.tensor(1.0), 0.0)[1]["information"]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_critic_that_tells_pairs_apart_has_information(estimator):
    pairs = [(torch.full((4,), 3.0), torch.full((4, 7), -3.0))]
    assert TradeOff(estimator, 3.0)(pairs, torch.tensor(1.0), 0.0)[1]["information"] > 0.5
