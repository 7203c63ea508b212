"""Cells of the benchmark as Ray tasks: `grid.run_all` is given workers whose process is anywhere in the cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from normscope.benchmark.cell import Cell, unmeasured
from normscope.benchmark.results import Result
from normscope.benchmark.worker import answer
from normscope.cluster.connection import connected, slots
from normscope.errors import DatasetError

if TYPE_CHECKING:
    from ray import ObjectRef

LOST_AT_MOST = 5  # times that a cell is begun anew because its process or machine was lost


class RayWorker:
    """What `benchmark.worker.Worker` is, one of as many as the cluster can run cells at a time."""

    def __init__(self, root: Path | None, threads: int, gpus: int) -> None:
        import ray

        self.root, self.threads = root, threads
        self.device = "cuda" if gpus else "cpu"
        self.task: ObjectRef[Result] | None = None
        needs = {"num_cpus": threads, "num_gpus": gpus, "max_retries": LOST_AT_MOST}
        self.run_cell, self.answer = ray.remote(**needs)(run_cell), ray.remote(**needs)(answer)

    def run(self, cell: Cell) -> Result:
        """A failure is a result too, with its error."""
        import ray
        from ray.exceptions import RayError

        self.task = self.run_cell.remote(cell, self.root, self.threads, self.device)
        try:
            return ray.get(self.task)
        except RayError as error:
            return {**unmeasured(cell, self.threads), "error": f"the task was lost ({type(error).__name__})"}

    def checksum(self, dataset: str) -> str:
        """Of the data set as a machine of the cluster reads it."""
        import ray

        found = ray.get(self.answer.remote({"dataset": dataset}, self.root))
        if "error" in found:
            raise DatasetError(str(found["error"]))
        return str(found["sha256"])

    def end(self) -> None:
        import ray

        if self.task is not None:
            ray.cancel(self.task, force=True)


@contextmanager
def workers(root: Path | None, threads: int) -> Iterator[list[RayWorker]]:
    """With a GPU each, if the cluster has any."""
    with connected():
        import ray

        gpus = int(ray.cluster_resources().get("GPU", 0) > 0)
        yield [RayWorker(root and root.absolute(), threads, gpus) for _ in range(slots(threads, gpus))]


def run_cell(cell: Cell, root: Path | None, threads: int, device: str) -> Result:
    """The task: what a worker's process does with a cell."""
    import torch

    from normscope.benchmark.protocol import run

    torch.set_num_threads(threads)
    return run(cell, root, device)
