"""Where tensors live and how exact the arithmetic of training is."""

from contextlib import AbstractContextManager, nullcontext, suppress

import torch

from normscope.errors import SettingError


def choose_device(name: str) -> torch.device:
    """`auto` takes cuda, then mps, then cpu."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device, there in available.items() if there))
    if available.get(name.split(":")[0], False):
        with suppress(RuntimeError):  # cpu:x has no number
            return torch.device(name)
    usable = ", ".join(device for device, there in available.items() if there)
    raise SettingError(f"no device {name!r} here; choose from auto, {usable}")


def gains_from_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 in hardware; a processor that has to emulate it is slower for it."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if device.type == "cpu" and hasattr(torch.cpu, "get_capabilities"):
        has = torch.cpu.get_capabilities()
        return bool(has.get("avx512_bf16") or has.get("amx_bf16"))
    return False


def reduced_precision(device: torch.device) -> AbstractContextManager[object]:
    """Autocast to bfloat16 where the device gains from it, and nothing elsewhere."""
    return torch.autocast(device.type, torch.bfloat16) if gains_from_bfloat16(device) else nullcontext()


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Float32 inside an autocast: for critics and losses, whose small differences bfloat16 would round away."""
    return torch.autocast(device.type, enabled=False)
