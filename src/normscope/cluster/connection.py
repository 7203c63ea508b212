"""The Ray cluster that this process belongs to, or one of its own on this machine."""

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager

from normscope.errors import ClusterError


@contextmanager
def connected() -> Iterator[None]:
    """To the cluster that RAY_ADDRESS names or that runs on this machine, else to one that lasts as long as this."""
    require_ray()
    import ray
    from ray.exceptions import RayError

    if ray.is_initialized():
        yield
        return
    try:
        ray.init(address="auto", log_to_driver=False, logging_level="error")
    except ConnectionError:
        ray.init(log_to_driver=False, logging_level="error", include_dashboard=False)
    try:
        yield
    except RayError as error:
        raise ClusterError(f"the Ray cluster failed: {str(error).strip().splitlines()[-1]}; start again") from error
    finally:
        ray.shutdown()


def require_ray() -> None:
    try:
        importlib.import_module("ray")
    except ImportError:
        raise ImportError("Ray is not installed; pip install 'normscope[cluster]'") from None


def slots(cpus: int, gpus: int = 0) -> int:
    """How many tasks of so many CPUs (and GPUs) the cluster can run at a time; a task needs a machine that has them."""
    import ray

    machines = [one["Resources"] for one in ray.nodes() if one["Alive"]]
    found = sum(
        int(min(one.get("CPU", 0) // cpus, one.get("GPU", 0) // gpus if gpus else math.inf)) for one in machines
    )
    if not found:
        raise ClusterError(f"no machine of the cluster has {cpus} cores; give fewer --threads")
    return found
