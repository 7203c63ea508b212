import pytest
import torch

from normscope.training.muon import Muon, orthogonal


@pytest.mark.parametrize("shape", [(16, 40), (40, 16)])
def test_singular_values_come_near_one_and_directions_stay(shape):
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonal(matrix)
    values = torch.linalg.svdvals(found)
    assert values.max() < 1.3
    assert values[s > 0.3 * s.max()].min() > 0.6
    rotated = u.T @ found @ vh.T
    assert torch.allclose(rotated, torch.diag(rotated.diagonal()), atol=1e-3)


def test_a_step_does_not_depend_on_the_size_of_the_gradient():
    steps = []
    for size in (1.0, 1000.0):
        torch.manual_seed(0)
        weight = torch.zeros(8, 4, 3, 3, requires_grad=True)
        weight.grad = size * torch.randn(8, 4, 3, 3)
        Muon([weight], lr=0.1).step()
        steps.append(weight.detach().clone())
    assert torch.allclose(*steps, atol=1e-5)
    assert torch.linalg.svdvals(steps[0].flatten(1)).max() == pytest.approx(0.1, rel=0.3)


def test_the_momentum_is_a_moving_average_of_the_gradients():
    weight = torch.zeros(4, 2, 3, 3, requires_grad=True)
    optimizer = Muon([weight], lr=0.1)
    for gradient in (1.0, 2.0):
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
    torch.testing.assert_close(optimizer.state[weight]["average"], torch.full_like(weight, 0.9 * 0.1 + 0.1 * 2))


def test_it_learns_a_convolution_faster_than_plain_descent():
    def error(make) -> float:
        torch.manual_seed(0)
        x = torch.randn(16, 4, 8, 8) * torch.tensor([1.0, 0.3, 0.1, 0.03])[:, None, None]
        wanted, weight = torch.randn(4, 4, 3, 3), torch.zeros(4, 4, 3, 3, requires_grad=True)
        optimizer = make([weight])
        for step in range(100):
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"] * (1 - step / 100)
            loss = torch.nn.functional.conv2d(x, weight - wanted).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return (weight - wanted).detach().norm().item()

    def with_rate(optimizer):
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
        return optimizer

    assert error(lambda p: with_rate(Muon(p, lr=0.3))) < 0.5 * error(lambda p: with_rate(torch.optim.SGD(p, lr=0.1)))


def test_its_state_survives_saving():
    def moved(steps_before: int) -> torch.Tensor:
        torch.manual_seed(0)
        weight = torch.zeros(4, 2, 3, 3, requires_grad=True)
        optimizer = Muon([weight], lr=0.1)
        for step in range(4):
            if step == steps_before:
                state, optimizer = optimizer.state_dict(), Muon([weight], lr=0.1)
                optimizer.load_state_dict(state)
            weight.grad = torch.randn(4, 2, 3, 3)
            optimizer.step()
        return weight.detach()

    assert torch.equal(moved(2), moved(99))
