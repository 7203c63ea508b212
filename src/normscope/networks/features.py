"""What every encoder returns for a batch of images."""

from typing import NamedTuple

from torch import Tensor


class Features(NamedTuple):
    """One code per image and, where the encoder has one, the map of local features it was made from."""

    code: Tensor  # [n, d]
    local: Tensor | None  # [n, d', h, w]; d' may differ from d
