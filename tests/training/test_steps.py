import pytest
import torch

from normscope.training.steps import spread, update


def test_spread_is_nothing_once_all_codes_are_the_same():
    codes = torch.tensor([[1.0, 5.0], [3.0, 5.0]], requires_grad=True)
    assert spread(codes) == pytest.approx((2**0.5 + 0) / 2)
    assert not spread(codes).requires_grad
    assert spread(torch.ones(4, 3)) == 0


def test_update_forgets_the_gradient_of_the_step_before():
    weight = torch.tensor([1.0], requires_grad=True)
    optimizer = torch.optim.SGD([weight], 0.1)
    for _ in range(2):
        update(optimizer, 2 * weight.sum())
    assert weight.item() == pytest.approx(0.6)


def test_update_moves_what_the_optimizer_owns_and_gives_others_no_gradient():
    ours, theirs = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    before = ours.weight.clone()
    update(torch.optim.SGD(ours.parameters(), 0.1), theirs(ours(torch.ones(1, 2))).sum())
    assert torch.allclose(ours.weight, before - 0.1 * theirs.weight.T.expand(2, 2))
    assert theirs.weight.grad is None
