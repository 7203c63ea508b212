"""Muon (Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks") for convolutions."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

QUINTIC = (3.4445, -4.7750, 2.0315)
ROUNDS = 4


class Muon(Optimizer):
    """Steps along the momentum with all its singular values made about 1, so that no direction is left behind.

    A convolution [out, in, k, k] counts as the matrix [out, in·k·k]; torch.optim.Muon takes matrices alone. What is no
    matrix (norms, biases) needs another optimiser; the first convolution, which Jordan leaves to it too, may come.
    """

    def __init__(self, parameters: Iterable[Tensor], lr: float, momentum: float = 0.9) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["average"] = torch.zeros_like(weight)
                average = state["average"].lerp_(weight.grad, 1 - group["momentum"])
                gradient = weight.grad.lerp(average, group["momentum"]).flatten(1)  # Nesterov's
                scale = math.sqrt(max(1.0, gradient.shape[0] / gradient.shape[1]))
                weight.add_(orthogonal(gradient).view_as(weight), alpha=-group["lr"] * scale)


def muon_and_adamw(
    parameters: Iterable[Tensor], convolution_rate: float, learning_rate: float, weight_decay: float
) -> dict[str, Optimizer]:
    """Muon for convolutions, AdamW for all other parameters."""
    every = list(parameters)
    return {
        "convolutions": Muon([weight for weight in every if weight.ndim == 4], convolution_rate),
        "others": AdamW([weight for weight in every if weight.ndim < 4], learning_rate, weight_decay=weight_decay),
    }


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with its singular values moved to between about 0.7 and 1.2, by a Newton–Schulz iteration."""
    a, b, c = QUINTIC
    x = matrix / (matrix.norm() + 1e-7)
    if tall := x.shape[0] > x.shape[1]:
        x = x.T
    for _ in range(ROUNDS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x
