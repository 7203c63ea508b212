"""The paper's other two scores: the similarity of random views of one image, drawn once (rand) or H times (mc)."""

from collections.abc import Callable
from hashlib import blake2b

import torch
from torch import Tensor

from normscope.objective.critics import soft_clip
from normscope.training.randomness import seeded
from normscope.views.augment import Recipe, random_view


def pair(
    encode: Callable[[Tensor], Tensor],
    images: Tensor,
    recipe: Recipe,
    scale: float,
    pairs: int,
    seed: int,
    clip: bool = True,
) -> Tensor:
    """−NormalScore_rand for one pair, −NormalScore_mc for H of them: the clipped similarity summed over pairs, [n].

    Views are drawn for each image from the seed and its own pixels, so that its score depends on nothing but itself.
    `clip=False` is the paper's equation, which has no soft clip where its Algorithm 2 has one.
    """
    scores = []
    for image in images:
        with seeded(seed, fingerprint(image)):
            views = random_view(image.expand(2 * pairs, *image.shape), recipe)
        one, other = encode(views).chunk(2)
        similarity = (one * other).sum(1)
        scores.append(-(soft_clip(similarity, scale) if clip else similarity / scale).sum())
    return torch.stack(scores)


def fingerprint(image: Tensor) -> int:
    return int.from_bytes(blake2b(image.contiguous().cpu().numpy().tobytes(), digest_size=4).digest())
