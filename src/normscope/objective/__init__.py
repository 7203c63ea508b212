"""The objective, I(x;z) − β·H(z) + γ·CE: estimators as pure functions of tensors, each with its natural sign."""

from collections.abc import Callable

from torch import Tensor

Information = Callable[[Tensor, Tensor], Tensor]  # positive scores [n], negative scores [n, m] → scalar, larger is more
Entropy = Callable[[Tensor], Tensor]  # codes [n, d] → scalar, larger is more spread
Separation = Callable[[Tensor, Tensor], Tensor]  # normal [n, d], anomalous [m, d] codes → scalar, larger is further

__all__ = ["Information", "Entropy", "Separation"]
