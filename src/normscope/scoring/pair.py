"""The paper's other two scores: the similarity of random views of one image, drawn once (rand) or H times (mc)."""

from collections.abc import Callable

import torch
from torch import Tensor

from normscope.objective.critics import soft_clip
from normscope.training.randomness import seeded
from normscope.views.augment import Recipe, random_view


def pair(
    encode: Callable[[Tensor], Tensor], images: Tensor, recipe: Recipe, scale: float, pairs: int, seed: int
) -> Tensor:
    """−NormalScore_rand for one pair, −NormalScore_mc for H of them: the clipped similarity summed over pairs, [n].

    Every image is seen through the same seeded views, so that its score depends on nothing but itself.
    """
    scores = []
    for image in images:
        with seeded(seed):
            views = random_view(image.expand(2 * pairs, *image.shape), recipe)
        one, other = encode(views).chunk(2)
        scores.append(-soft_clip((one * other).sum(1), scale).sum())
    return torch.stack(scores)
