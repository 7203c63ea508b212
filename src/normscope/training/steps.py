"""What the steps of most methods share."""

from collections.abc import Iterable

from torch import Tensor
from torch.optim import Optimizer

from normscope.training.distributed import average_gradients


def spread(codes: Tensor) -> Tensor:
    """Standard deviation of a code's entries over the batch: nothing once all images get the same code."""
    return codes.detach().std(0).mean()


def update(optimizers: Optimizer | Iterable[Optimizer], loss: Tensor) -> None:
    """One step of what the optimisers own; other networks that the loss passes through get no gradient."""
    every = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
    for optimizer in every:
        optimizer.zero_grad()
    weights = [weight for one in every for group in one.param_groups for weight in group["params"]]
    loss.backward(inputs=weights)
    average_gradients(weights)
    for optimizer in every:
        optimizer.step()
