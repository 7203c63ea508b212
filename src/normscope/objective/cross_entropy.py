"""The third term, E H(p_n(z|x), p_a(z|x)): larger when normal codes are less likely under the anomalous distribution.

The paper drops it for want of anomalies. It takes codes of labelled anomalies or of pseudo-anomalies alike.
"""

import math

import torch.nn.functional as F
from torch import Tensor

__all__ = ["norm_margin", "gaussian"]


def norm_margin(normal: Tensor, anomalous: Tensor) -> Tensor:
    """Soft margin on the plain L2 norm, normal above 1 and anomalous below; never exceeds 0."""
    # A surrogate: the norm is the paper's score, so the two sides are parted where the score will look.
    return -F.softplus(1 - normal.norm(dim=1)).mean() - F.softplus(anomalous.norm(dim=1) - 1).mean()


def gaussian(normal: Tensor, anomalous: Tensor, *, floor: float = 1e-4) -> Tensor:
    """Mean surprisal in nats of normal codes under a diagonal Gaussian fitted to the anomalous codes; not bounded."""
    # Without a floor on the variance, shrinking the anomalous codes to a point would make the term infinite.
    variance = anomalous.var(0, correction=0).clamp_min(floor)
    distance = (normal - anomalous.mean(0)).square() / variance
    return 0.5 * (distance + variance.log() + math.log(2 * math.pi)).sum(1).mean()
