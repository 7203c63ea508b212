"""One seeded place. Every random number of a fit follows from the seed and from where in the fit it is drawn.

A step is seeded by its own number, so a run that was cut off goes on as if it never had been, and no generator's
state need be saved.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def seeded(*key: int) -> Iterator[None]:
    """Torch's global generators follow from `key` inside, and are as the caller left them outside."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint32)[0]))
        yield


def permutation(n: int, *key: int) -> np.ndarray:
    """0 … n − 1 in the order that follows from `key`."""
    return np.random.default_rng(key).permutation(n)
