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
