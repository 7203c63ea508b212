"""Half of a score from a pretrained encoder, beside what a network learnt from scratch."""

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from normscope.networks.pretrained import Frozen, two_sizes
from normscope.scoring.held_out import two_fold
from normscope.scoring.surprisal import fit_gaussians, gaussians
from normscope.training.method import Batches, Method, Reference, part, under

SIDE = 160  # pixels to which small images are enlarged for the encoder
MOST_SEEN = 2000  # images that its Gaussians are fitted to: each takes long


def frozen_encoder(name: str, shape: tuple[int, int, int]) -> Frozen | None:
    """For images of this shape; none if there is no name."""
    return Frozen(name, SIDE, shape[1:]) if name else None


class WithEncoder(Method):
    """A method that learns from scratch; a pretrained encoder, if there is one, gives half of the score.

    Images teach a network what is peculiar to them, and an encoder knows what they do not show: it describes each in
    two sizes, and the surprisals of its codes are half of the score. What `finish`, `score` and `explain` get are the
    images and, behind their pixels, these codes.
    """

    frozen: Frozen | None

    def load_pretrained(self) -> None:
        if self.frozen is not None:
            self.frozen.restore()

    @property
    def encodes(self) -> bool:
        return self.frozen is not None

    def encode(self, images: Tensor) -> Tensor:
        if self.frozen is None:
            return images
        return torch.cat([images.flatten(1), *self.frozen.codes(images, two_sizes(SIDE, self.shape[1:]))], 1)

    def images(self, encoded: Tensor) -> Tensor:
        """As `encode` was given them."""
        if self.frozen is None:
            return encoded
        return encoded[:, : math.prod(self.shape)].unflatten(1, self.shape).contiguous()

    def before_training(self) -> Method | None:
        return None if self.frozen is None else EncoderAlone(self)

    def fit_encoder(self, batches: Batches) -> Reference:
        """Gaussians of the encoder's codes, and the scale of their surprisals; nothing without one."""
        if self.frozen is None:
            return {}
        d, codes = self.frozen.shapes[-1][0], self.codes_to_fit(batches)
        usual = two_fold(codes, partial(fit_gaussians, d=d), partial(gaussians, d=d))
        fitted = {**fit_gaussians(codes, d), "mean": usual.mean(0), "deviation": usual.std(0) + 1e-6}
        return under("frozen", fitted)

    def half_each(self, learnt: Tensor, encoded: Tensor, reference: Reference) -> Tensor:
        """The mean of both, in standard deviations of normal images; what was learnt alone without an encoder."""
        if self.frozen is None:
            return learnt
        known = part(reference, "frozen")
        seen = gaussians(self.frozen_codes(encoded), known, self.frozen.shapes[-1][0])
        return (learnt + ((seen - known["mean"].to(seen)) / known["deviation"].to(seen)).mean(1)) / 2

    def codes_to_fit(self, batches: Batches) -> Tensor:
        """Of at most `MOST_SEEN` images."""
        seen = min(len(batches), MOST_SEEN)
        some = np.arange(seen) * len(batches) // seen
        return torch.cat([self.frozen_codes(encoded) for encoded in batches.subset(some)])

    def frozen_codes(self, encoded: Tensor) -> Tensor:
        return encoded[:, math.prod(self.shape) :]


class EncoderAlone(Method):
    """What the encoder of such a method says of images before anything is trained."""

    def __init__(self, whole: WithEncoder) -> None:
        super().__init__(whole.settings, whole.shape)
        if whole.frozen is None:
            raise ValueError("the method has no pretrained encoder")
        self.whole, self.dimension = whole, whole.frozen.shapes[-1][0]

    def finish(self, batches: Batches) -> Reference:
        return fit_gaussians(self.whole.codes_to_fit(batches), self.dimension)

    def score(self, encoded: Tensor, reference: Reference) -> Tensor:
        return gaussians(self.whole.frozen_codes(encoded), reference, self.dimension).mean(1)
