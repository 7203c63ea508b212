"""Where tensors live and how exact the arithmetic of training is."""

import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache

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
    """Whether bfloat16 is faster than float32: on a CPU, only where it has tiles for it (AMX)."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if device.type == "cpu" and hasattr(torch.cpu, "get_capabilities"):
        return bool(torch.cpu.get_capabilities().get("amx_bf16")) and survives_bfloat16()
    return False


@cache
def survives_bfloat16() -> bool:
    """Whether a product in bfloat16 comes to an end, tried in a process of its own.

    A virtual machine may announce tiles and have no instructions for them, which ends the process that uses them.
    """
    product = "import torch; x = torch.ones(256, 256, dtype=torch.bfloat16); x @ x"
    return subprocess.run([sys.executable, "-c", product], capture_output=True).returncode == 0


def reduced_precision(device: torch.device) -> AbstractContextManager[object]:
    """Autocast to bfloat16 where the device gains from it, and nothing elsewhere."""
    return torch.autocast(device.type, torch.bfloat16) if gains_from_bfloat16(device) else nullcontext()


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Float32 inside an autocast: for critics and losses, whose small differences bfloat16 would round away."""
    return torch.autocast(device.type, enabled=False)
