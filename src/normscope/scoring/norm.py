"""The paper's score: how large the code is. Its NormalScore is negated here, once."""

from torch import Tensor

from normscope.objective.critics import soft_clip


def norm(code: Tensor, scale: float) -> Tensor:
    """−NormalScore_ori (Algorithm 2): codes [n, d] → [n]; normal codes are long."""
    return -soft_clip((code * code).sum(1), scale)


def norm_with_local(code: Tensor, local: Tensor, scale: float) -> Tensor:
    """−(sim(g, g) + sim(g, l)), clipped once (Algorithm 5); code [n, d], local [n, d, h, w] → [n]."""
    similarity = (code * code).sum(1) + (code * local.sum((2, 3))).sum(1)
    return -soft_clip(similarity, scale)
