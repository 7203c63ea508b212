"""Learning rates as a factor of their largest value, by the share of a phase that is done."""

import math


def warm_cosine(progress: float) -> float:
    """Rises over the first twentieth, then falls to nothing along a cosine."""
    return min(1.0, (progress + 0.01) / 0.05) * 0.5 * (1 + math.cos(math.pi * progress))
