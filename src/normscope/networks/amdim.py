"""The paper's small and big encoders (appendix A), which are AMDIM's 32² and 128² encoders, and narrower ones.

The tables leave open what AMDIM's published model settles, so this follows it: no bias in a residual convolution, no
ReLU after its sum, and reflection for the one padding there is (big's first convolution).
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normscope.errors import SettingError
from normscope.networks.features import Features

Initialisation = Literal["kaiming", "zero"]


@dataclass(frozen=True)
class Preset:
    """The paper's ndf, nrkhs and ndepth, and the side of the square images the tables are for."""

    native: Literal[32, 128] = 32
    width: int = 128
    code: int = 1024
    depth: int = 10


PRESETS = {
    "small": Preset(),
    "medium": Preset(width=64, code=512, depth=5),
    "slim": Preset(width=32, code=256, depth=3),
    "tiny": Preset(width=16, code=128, depth=2),
    "big": Preset(native=128, width=192, code=1536, depth=8),
}


def encoder(
    preset: str,
    channels: int = 3,
    output_norm: bool = False,
    initialisation: Initialisation = "kaiming",
    code: int | None = None,
    rectify: bool = False,
) -> "Amdim":
    """A new encoder of one of the `PRESETS`: small and big are the paper's, medium, slim and tiny run on a CPU.

    `code` replaces the size of the code that goes with the preset.
    """
    if preset not in PRESETS:
        raise SettingError(f"no encoder {preset!r}; choose from {', '.join(PRESETS)}")
    chosen = PRESETS[preset] if code is None else replace(PRESETS[preset], code=code)
    return Amdim(chosen, channels, output_norm, initialisation, rectify)


class Amdim(nn.Module):
    """Images [n, channels, h, w] → code [n, preset.code] and the 5×5 map [n, local_channels, 5, 5] under it.

    The tables hold for one image size. Any other is resized to it first, bilinearly with antialiasing. A grey image
    given to a colour encoder is repeated in its three channels, as in the paper.

    `output_norm` adds AMDIM's batch norm on the code, which the paper does not list. `initialisation="zero"` sets the
    second convolution of every residual convolution to zero, as AMDIM does: the untrained code is then zero beyond
    its first `width` entries. `rectify` puts a ReLU after every residual sum and on the code, which the paper does not
    list either: a linear code has no way to be sparse.
    """

    def __init__(
        self,
        preset: Preset,
        channels: int = 3,
        output_norm: bool = False,
        initialisation: Initialisation = "kaiming",
        rectify: bool = False,
    ) -> None:
        super().__init__()
        _check(preset, channels, initialisation)
        self.channels = channels
        self.native = preset.native
        self.code_size = preset.code
        self.local_channels = preset.width * (4 if preset.native == 32 else 8)
        self.stem, self.local_blocks = _small(preset, channels) if preset.native == 32 else _big(preset, channels)
        self.code_blocks = nn.Sequential(
            residual_block(self.local_channels, self.local_channels, kernel=3, stride=1, depth=preset.depth),
            residual_block(self.local_channels, preset.code, kernel=3, stride=1, depth=1),
        )
        self.output_norm = nn.BatchNorm1d(preset.code) if output_norm else nn.Identity()
        self.rectify = rectify
        for part in self.modules():
            if isinstance(part, ResidualConvolution):
                part.prepare(zero=initialisation == "zero", rectify=rectify)

    def forward(self, images: Tensor) -> Features:
        local = self.local_blocks(self.stem(self._to_native(images)))
        code = self.output_norm(self.code_blocks(local).flatten(1))
        return Features(code.relu() if self.rectify else code, local)

    def _to_native(self, images: Tensor) -> Tensor:
        if images.shape[1] not in (1, self.channels):
            raise ValueError(f"images have {images.shape[1]} channels; this encoder takes {self.channels}")
        size = (self.native, self.native)
        if images.shape[-2:] != size:
            images = F.interpolate(images, size, mode="bilinear", align_corners=False, antialias=True)
        return images.expand(-1, self.channels, -1, -1)


class ResidualConvolution(nn.Module):
    """AMDIM's unit: k×k convolution, ReLU, 1×1 convolution, added to the average-pooled and zero-padded input.

    No padding in space: the side shrinks as a k×k window with this stride does. Where there are fewer channels out
    than in, the shortcut is a k×k convolution instead.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, kernel, stride, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 1, bias=False)
        self.kernel, self.stride, self.new_channels = kernel, stride, outputs - inputs
        self.shrink = nn.Conv2d(inputs, outputs, kernel, stride) if outputs < inputs else None
        self.rectify = False

    def prepare(self, zero: bool, rectify: bool) -> None:
        """`zero`: begin as the shortcut alone; `rectify`: a ReLU after the sum."""
        self.rectify = rectify
        if zero:
            nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor) -> Tensor:
        branch: Tensor = self.second(self.first(x).relu())
        summed = branch + self._shortcut(x)
        return summed.relu() if self.rectify else summed

    def _shortcut(self, x: Tensor) -> Tensor:
        if self.shrink is not None:
            shrunk: Tensor = self.shrink(x)
            return shrunk
        if self.kernel > 1 or self.stride > 1:
            x = F.avg_pool2d(x, self.kernel, self.stride)
        return F.pad(x, (0, 0, 0, 0, 0, self.new_channels)) if self.new_channels else x


class LocalProjector(nn.Module):
    """Local map [n, channels, h, w] → [n, code, h, w]: AMDIM's nonlinear 1×1 projector beside a linear shortcut.

    The shortcut starts close to the identity where `code >= channels`. `output_norm` adds AMDIM's batch norm, which
    the paper does not list; `initialisation` and `rectify` are those of the encoder.
    """

    def __init__(
        self,
        channels: int,
        code: int,
        output_norm: bool = False,
        initialisation: Initialisation = "kaiming",
        rectify: bool = False,
    ) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, code, 1, bias=False)
        self.second = nn.Conv2d(code, code, 1, bias=False)
        self.shortcut = nn.Conv2d(channels, code, 1)
        self.output_norm, self.rectify = nn.BatchNorm2d(code) if output_norm else nn.Identity(), rectify
        if code >= channels:
            nn.init.uniform_(self.shortcut.weight, -0.01, 0.01)
            with torch.no_grad():
                self.shortcut.weight[:channels, :, 0, 0].fill_diagonal_(1.0)
        if initialisation == "zero":
            nn.init.zeros_(self.second.weight)

    def forward(self, local: Tensor) -> Tensor:
        projected: Tensor = self.output_norm(self.second(self.first(local).relu()) + self.shortcut(local))
        return projected.relu() if self.rectify else projected


def residual_block(inputs: int, outputs: int, kernel: int, stride: int, depth: int) -> nn.Sequential:
    """The table's ResBlock(inputs, outputs, kernel, stride, depth): one k×k residual convolution, depth − 1 of 1×1."""
    head = ResidualConvolution(inputs, outputs, kernel, stride)
    return nn.Sequential(head, *(ResidualConvolution(outputs, outputs, 1, 1) for _ in range(depth - 1)))


def _small(preset: Preset, channels: int) -> tuple[nn.Sequential, nn.Sequential]:
    """Sides 32 → 30 → 30 → 14 → 7 → 5."""
    w, depth = preset.width, preset.depth
    stem = nn.Sequential(
        nn.Conv2d(channels, w, 3),
        nn.ReLU(),
        # The table gives this one depth 0 where AMDIM has a single 1×1 residual convolution (its 0 is the padding).
        ResidualConvolution(w, w, kernel=1, stride=1),
    )
    blocks = nn.Sequential(
        residual_block(w, 2 * w, kernel=4, stride=2, depth=depth),
        residual_block(2 * w, 4 * w, kernel=2, stride=2, depth=depth),
        residual_block(4 * w, 4 * w, kernel=3, stride=1, depth=depth),
    )
    return stem, blocks


def _big(preset: Preset, channels: int) -> tuple[nn.Sequential, nn.Sequential]:
    """Sides 128 → 64 → 62 → 30 → 14 → 7 → 5."""
    w, depth = preset.width, preset.depth
    stem = nn.Sequential(
        nn.Conv2d(channels, w, 5, stride=2, padding=2, padding_mode="reflect"),
        nn.ReLU(),
        nn.Conv2d(w, w, 3),
        nn.ReLU(),
    )
    blocks = nn.Sequential(
        residual_block(w, 2 * w, kernel=4, stride=2, depth=depth),
        residual_block(2 * w, 4 * w, kernel=4, stride=2, depth=depth),
        residual_block(4 * w, 8 * w, kernel=2, stride=2, depth=depth),
        residual_block(8 * w, 8 * w, kernel=3, stride=1, depth=depth),
    )
    return stem, blocks


def _check(preset: Preset, channels: int, initialisation: str) -> None:
    if preset.native not in (32, 128):
        raise SettingError(f"no encoder for images of side {preset.native}; choose 32 or 128")
    if min(preset.width, preset.code, preset.depth) < 1:
        raise SettingError(f"width, code and depth must be at least 1, not {preset}")
    if channels not in (1, 3):
        raise SettingError(f"an encoder takes 1 or 3 channels, not {channels}")
    if initialisation not in get_args(Initialisation):
        raise SettingError(f"no initialisation {initialisation!r}; choose from {', '.join(get_args(Initialisation))}")
