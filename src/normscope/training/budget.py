"""Seconds → steps: measure the first steps, plan as many as fit, and correct the plan as time goes on."""

import re
from collections.abc import Sequence

from normscope.errors import SettingError

WARM_UP, MEASURED = 2, 8
PLANNED_EVERY = 0.05
"""A plan is made after so much of the budget, ten steps at least, and made anew after every further such share."""


def seconds(text: str) -> float:
    """`90`, `90s`, `5m` or `1.5h` in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip().lower())
    if not match or float(match[1]) <= 0:
        raise SettingError(f"{text!r} is not a budget; write for instance 90s, 5m or 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def affordable_steps(seconds_left: float, step_seconds: Sequence[float]) -> int:
    """How many further steps fit, if they take as long as these on average."""
    return max(0, round(seconds_left * len(step_seconds) / sum(step_seconds)))
