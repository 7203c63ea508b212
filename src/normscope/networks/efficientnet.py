"""EfficientNet-lite (Tan & Le 2019; the lite variants of Liu 2020: no squeeze-and-excitation, ReLU6), for inference.

Batch norms are folded into the convolutions, which leaves fewer operations and nothing that differs between training
and evaluation; on a CPU oneDNN applies ReLU6 while it writes what a convolution makes. Images in [-1, 1] are what the
published weights were trained on ((pixel − 127) / 128).
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEM, HEAD = 32, 1280
EPSILON = 1e-3  # of the batch norms
LAST_OF_SCALE = (1, 2, 4)  # the stages before the image is halved for the third, fourth and fifth time
SCALES = {"efficientnet-lite0": (1.0, 1.0), "efficientnet-lite1": (1.0, 1.1), "efficientnet-lite2": (1.1, 1.2)}
"""How many times as wide and as deep as lite0 each is."""


class Stage(NamedTuple):
    repeats: int
    kernel: int
    stride: int
    expansion: int
    channels: int


LITE0_STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


def stages_of(name: str) -> list[Stage]:
    """Those of lite0, wider and deeper; the first and the last are as deep as there."""
    width, depth = SCALES[name]
    first_and_last = (LITE0_STAGES[0], LITE0_STAGES[-1])
    return [
        stage._replace(
            repeats=stage.repeats if stage in first_and_last else math.ceil(depth * stage.repeats),
            channels=in_eights(width * stage.channels),
        )
        for stage in LITE0_STAGES
    ]


def in_eights(channels: float) -> int:
    """The nearest multiple of 8 that is not below nine tenths."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


class EfficientNetLite(nn.Module):
    """Images [n, 3, h, w] of 32 pixels a side or more → maps at 1/4, 1/8, 1/16, 1/32; lite0's have 24, 40, 112 and 1280
    channels."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.channels = [*(stages_of(name)[place].channels for place in LAST_OF_SCALE), HEAD]
        self.stem = Convolution(3, STEM, 3, stride=2)
        stages, before = [], STEM
        for repeats, kernel, stride, expansion, channels in stages_of(name):
            blocks = []
            for place in range(repeats):
                blocks.append(Block(before, channels, kernel, 1 if place else stride, expansion))
                before = channels
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(stages)
        self.head = Convolution(before, HEAD, 1)

    def shapes(self, size: tuple[int, int]) -> list[torch.Size]:
        """(c, h, w) of the maps of images of this height and width."""
        scales = enumerate(self.channels, start=2)  # halved so many times
        return [torch.Size([c, *(math.ceil(side / 2**times) for side in size)]) for times, c in scales]

    def forward(self, x: Tensor) -> list[Tensor]:
        maps, x = [], self.stem(x)
        for place, stage in enumerate(self.stages):
            x = stage(x)
            if place in LAST_OF_SCALE:
                maps.append(x)
        return [*maps, self.head(x)]


class Block(nn.Module):
    """Widen by a 1×1 convolution, filter each channel by itself, narrow again; added to what came in where it fits."""

    def __init__(self, before: int, after: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = before * expansion
        self.expand = Convolution(before, inner, 1) if expansion > 1 else None
        self.depthwise = Convolution(inner, inner, kernel, stride, groups=inner)
        self.project = Convolution(inner, after, 1, relu6=False)
        self.skips = stride == 1 and before == after

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.filtered(x))
        return y.add_(x) if self.skips else y

    def filtered(self, x: Tensor) -> Tensor:
        if self.expand is None or self.depthwise.stride[0] == 1 or not self.depthwise.fuses(x):
            return self.depthwise(x if self.expand is None else self.expand(x))
        # Padded before it is widened, when there is a sixth as much to copy; the margin is made zero again.
        left, right, top, bottom = self.depthwise.margin(x)
        y = self.expand(F.pad(x, (left, right, top, bottom)))
        height, width = y.shape[2:]
        for strip in (y[:, :, :top], y[:, :, height - bottom :], y[..., :left], y[..., width - right :]):
            strip.zero_()
        return self.depthwise.fused(y)


class Convolution(nn.Conv2d):
    """Padded as TensorFlow's "same": to ⌈size / stride⌉, the odd pixel at the right and at the bottom; then ReLU6."""

    def __init__(
        self, before: int, after: int, kernel: int, stride: int = 1, groups: int = 1, relu6: bool = True
    ) -> None:
        super().__init__(before, after, kernel, stride, padding=kernel // 2 if stride == 1 else 0, groups=groups)
        self.relu6 = relu6

    def forward(self, x: Tensor) -> Tensor:
        if self.stride[0] > 1:
            x = F.pad(x, self.margin(x))
        if self.fuses(x):
            return self.fused(x)
        y = super().forward(x)
        return F.relu6(y, inplace=not torch.compiler.is_compiling()) if self.relu6 else y  # an export is sooner done

    def fuses(self, x: Tensor) -> bool:
        """Whether oneDNN can be called for it directly: not for gradients or a graph to export, and on a CPU that it
        supports."""
        learns = torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad)
        plain = learns or x.device.type != "cpu" or x.dtype != torch.float32 or torch.compiler.is_compiling()
        return (
            not plain and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_convolution_pointwise")
        )

    def fused(self, x: Tensor) -> Tensor:
        """By oneDNN, as code from torch.compile calls it: a third less time than a convolution and then ReLU6."""
        after = ("hardtanh", [0.0, 6.0]) if self.relu6 else ("none", [])
        shape = (self.padding, self.stride, self.dilation, self.groups)
        made: Tensor = torch.ops.mkldnn._convolution_pointwise(x, self.weight, self.bias, *shape, *after, "")
        return made

    def margin(self, x: Tensor) -> tuple[int, int, int, int]:
        """Pixels to add at the left, right, top and bottom."""
        (left, right), (top, bottom) = (self.missing(x.shape[axis]) for axis in (3, 2))
        return left, right, top, bottom

    def missing(self, size: int) -> tuple[int, int]:
        """Pixels to add before and after."""
        stride, kernel = self.stride[0], self.kernel_size[0]
        pad = max(0, (-(-size // stride) - 1) * stride + kernel - size)
        return pad // 2, pad - pad // 2


def from_published(state: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Weights under the names that the PyTorch port of the published ones has → the state of the network so named."""
    folded = {}

    def fold(name: str, convolution: str, norm: str) -> None:
        scale = state[f"{norm}.weight"] / (state[f"{norm}.running_var"] + EPSILON).sqrt()
        folded[f"{name}.weight"] = state[f"{convolution}.weight"] * scale[:, None, None, None]
        folded[f"{name}.bias"] = state[f"{norm}.bias"] - state[f"{norm}.running_mean"] * scale

    fold("stem", "_conv_stem", "_bn0")
    fold("head", "_conv_head", "_bn1")
    places = [(stage, block) for stage, one in enumerate(stages_of(name)) for block in range(one.repeats)]
    for number, (stage, block) in enumerate(places):
        ours, theirs = f"stages.{stage}.{block}", f"_blocks.{number}"
        if stage:
            fold(f"{ours}.expand", f"{theirs}._expand_conv", f"{theirs}._bn0")
        fold(f"{ours}.depthwise", f"{theirs}._depthwise_conv", f"{theirs}._bn1")
        fold(f"{ours}.project", f"{theirs}._project_conv", f"{theirs}._bn2")
    return folded
