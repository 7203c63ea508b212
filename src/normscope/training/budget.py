"""Seconds → steps: measure the first steps, then fix the number of steps, and with it the schedule."""

import re

from normscope.errors import SettingError

WARM_UP, MEASURED = 2, 8
MEASURED_SHARE = 0.05
"""At least so many steps and so much of the budget are measured: a busy moment must not settle the whole run."""

RESERVED = 0.05
"""Share of the budget kept for what comes after training: fitting the reference and scoring the held-out images."""


def seconds(text: str) -> float:
    """`90`, `90s`, `5m` or `1.5h` in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip().lower())
    if not match or float(match[1]) <= 0:
        raise SettingError(f"{text!r} is not a budget; write for instance 90s, 5m or 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def affordable_steps(seconds_left: float, step_seconds: list[float]) -> int:
    """How many further steps fit, judged by the median of the steps after the warm-up."""
    measured = sorted(step_seconds[WARM_UP:])
    return max(0, int(seconds_left / measured[len(measured) // 2]))
