"""The wide ResNet of GeoTrans (Zagoruyko and Komodakis 2016, as in Golan and El-Yaniv 2018)."""

from torch import Tensor, nn

from normscope.errors import SettingError
from normscope.networks.resnet import Block

STEM = 16


class WideResNet(nn.Module):
    """Images [n, channels, h, w] of any size → logits [n, classes].

    `width` is that of the first group of blocks: 16 times the factor by which the network is widened. Two more groups
    follow, each with twice the channels at half the side; a group has (depth − 4) / 6 blocks. The published pooling
    over 8×8 is over the whole map here, which is the same at 32 pixels.
    """

    def __init__(self, channels: int, classes: int, width: int = 64, depth: int = 10) -> None:
        super().__init__()
        if depth < 10 or (depth - 4) % 6:
            raise SettingError(f"depth is {depth}; give 10, 16, 22 or another 6 n + 4")
        widths = [STEM, width, 2 * width, 4 * width]
        self.stem = nn.Conv2d(channels, STEM, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(
            *(
                Block(widths[group] if first else widths[group + 1], widths[group + 1], 2 if group and first else 1)
                for group in range(3)
                for first in [True] + [False] * ((depth - 4) // 6 - 1)
            )
        )
        self.norm = nn.BatchNorm2d(4 * width)
        self.head = nn.Linear(4 * width, classes)
        self.reset()

    def reset(self) -> None:
        """He's normal initialisation by fan-in; the head uniform within ± 1 / √fan-in, its bias nought."""
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
        bound = self.head.in_features**-0.5
        nn.init.uniform_(self.head.weight, -bound, bound)
        nn.init.zeros_(self.head.bias)

    def forward(self, images: Tensor) -> Tensor:
        features = self.norm(self.blocks(self.stem(images))).relu().mean((2, 3))
        logits: Tensor = self.head(features)
        return logits
