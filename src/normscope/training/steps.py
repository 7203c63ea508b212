"""What the steps of most methods share."""

import torch
from torch import Tensor


def spread(codes: Tensor) -> Tensor:
    """Standard deviation of a code's entries over the batch: nothing once all images get the same code."""
    return codes.detach().std(0).mean()


def update(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step of what the optimiser owns; other networks that the loss passes through get no gradient."""
    optimizer.zero_grad()
    loss.backward(inputs=[parameter for group in optimizer.param_groups for parameter in group["params"]])
    optimizer.step()
