"""A measurement becomes a line in results/: what was measured, where, and how busy the machine was."""

import json
import os
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path

import torch

from normscope import __version__
from normscope.benchmark import results
from normscope.benchmark.commit import commit
from normscope.training.device import gains_from_bfloat16


def append(out: Path, line: dict) -> None:
    print(json.dumps(line), flush=True)
    where = {
        "version": __version__,
        "commit": commit(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "bfloat16": gains_from_bfloat16(torch.device("cpu")),
    }
    results.append(out, {**line, **where, "load": round(os.getloadavg()[0], 1), "error": None})


def timed(run: Callable[[], object]) -> dict[str, float]:
    """Seconds by the clock, and of processors in this process and in those that it started and that have ended.

    On a machine that others use too, processor time alone says how much work something is.
    """
    began, used = time.perf_counter(), processor_seconds()
    run()
    return {"clock": time.perf_counter() - began, "processor": processor_seconds() - used}


def processor_seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)
