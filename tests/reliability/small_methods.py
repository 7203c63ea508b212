"""Every method with settings that make a fit take a second, and images for it."""

import numpy as np

from normscope import Detector
from normscope.errors import SettingError
from normscope.methods import method_names, settings_of
from normscope.settings import build

SMALL = {
    "encoder": "tiny",
    "width": 16,
    "batch_size": 16,
    "score_pairs": 2,
    **{"search_steps": 5, "starts": 2, "rounds": 2},
    "transforms": 4,
}
OWN = {
    "base": {"encoder": "resnet", "code": 64},
    "extension": {"encoder": "resnet", "code": 64},
    "pretrained": {"encoder": "efficientnet-lite0", "side": 32, "channels": 10},
}
NAMES = [name for name in method_names() if name != "auto"]


def settings(name: str) -> dict[str, object]:
    return {key: value for key, value in SMALL.items() if takes(name, key, value)} | OWN.get(name, {})


def takes(name: str, key: str, value: object) -> bool:
    try:
        build(settings_of(name), {key: value})
    except SettingError:
        return False
    return True


def detector(name: str, **options: object) -> Detector:
    given = {"settings": settings(name), "epochs": 1, "false_alarm_rate": 0.2, "size": 28, **options}
    return Detector(name, **given)


def pictures(n: int, seed: int = 0, side: int = 28) -> np.ndarray:
    """[n, side, side]: stripes with noise."""
    rng = np.random.default_rng(seed)
    columns = 120 + 60 * np.sin(np.arange(side) / 3)
    return np.clip(columns + rng.normal(0, 12, (n, side, side)), 0, 255).astype(np.uint8)
