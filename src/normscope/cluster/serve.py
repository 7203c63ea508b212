"""`normscope serve` under Ray Serve: the same application, in as many replicas as the cluster is asked for."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from normscope.cluster.connection import require_ray

if TYPE_CHECKING:
    from ray.serve import Application

    from normscope.model import Model


def deployment(models: Sequence[Path], *, replicas: int = 1, gpus: float = 0.0) -> "Application":
    """What `ray.serve.run` takes: the models under their files' names, which every machine must be able to read.

    Each replica loads the models and has limits, history and metrics of its own; `server/app.py` says which.
    """
    require_ray()
    from ray import serve

    paths = {path.stem: path.absolute() for path in models}

    def application():  # type: ignore[no-untyped-def]  # called in the replica, for an application cannot be sent
        from normscope.model import load
        from normscope.server.app import make_app

        def load_all() -> "Mapping[str, Model]":
            return {name: load(path) for name, path in paths.items()}

        return make_app(load_all)

    class Replica:
        """All that it does is in the application."""

    deploy = serve.deployment(name="normscope", num_replicas=replicas, ray_actor_options={"num_gpus": gpus})
    return deploy(serve.ingress(application)(Replica)).bind()
