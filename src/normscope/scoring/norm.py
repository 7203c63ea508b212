"""The paper's score: how large the code is. Its NormalScore is negated here, once."""

from torch import Tensor

from normscope.objective.critics import soft_clip

FLOOR = 0.1  # added to norms before their logarithm: a rectified code may be zero
OWN_SHARE = 0.5  # how much the norms of an image's own shifted versions count against its own


def norm(code: Tensor, scale: float) -> Tensor:
    """−NormalScore_ori (Algorithm 2): codes [n, d] → [n]; normal codes are long."""
    return -soft_clip((code * code).sum(1), scale)


def norm_with_local(code: Tensor, local: Tensor, scale: float) -> Tensor:
    """−(sim(g, g) + sim(g, l)), clipped once (Algorithm 5); code [n, d], local [n, d, h, w] → [n]."""
    return -soft_clip(similarity_with_local(code, local), scale)


def similarity_with_local(code: Tensor, local: Tensor) -> Tensor:
    """sim(g, g) + sim(g, l), [n]."""
    return (code * code).sum(1) + (code * local.sum((2, 3))).sum(1)


def norm_ratio(norms: Tensor) -> Tensor:
    """Norms of an image and of its shifted versions [n, 1 + shifts] → [n]: the likelihood-ratio form of the score.

    −(log‖z‖ − ½·mean log‖z_shifted‖): a code that is long whatever way the image is turned says little of it.
    """
    logs = (norms + FLOOR).log()
    return -(logs[:, 0] - OWN_SHARE * logs[:, 1:].mean(1))
