"""A process that runs cells, one after another.

It can be killed at any time, whatever the cell is doing, and if it dies, only its cell is lost. Requests and answers
are JSON lines on its standard input and output.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from normscope.benchmark.cell import Cell, unmeasured
from normscope.benchmark.results import Result
from normscope.errors import DatasetError, NormscopeError
from normscope.settings import JSON


class Worker:
    """The process as its parent sees it: started when it is first needed, and again after it died."""

    def __init__(self, root: Path | None, threads: int) -> None:
        # -P: modules of the working directory must not take the place of others.
        self.command = [sys.executable, "-P", "-m", __name__, str(threads), *([str(root)] if root else [])]
        self.threads = threads
        self.process: subprocess.Popen[str] | None = None
        self.ended = False

    def run(self, cell: Cell) -> Result:
        """A failure is a result too, with its error."""
        answer = self.ask({"cell": asdict(cell)})
        return answer or {**unmeasured(cell, self.threads), "error": f"the process died ({self.fate()})"}

    def checksum(self, dataset: str) -> str:
        """Of the data set, which the process keeps for the cells to come."""
        answer = self.ask({"dataset": dataset}) or {"error": f"{dataset}: the process died ({self.fate()})"}
        if "error" in answer:
            raise DatasetError(str(answer["error"]))
        return str(answer["sha256"])

    def ask(self, request: Mapping[str, JSON]) -> Result | None:
        """None if the process died."""
        process = self.started()
        if process is None or process.stdin is None or process.stdout is None:
            return None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        if not answer.endswith("\n"):
            return None
        result: Result = json.loads(answer)
        return result

    def started(self) -> subprocess.Popen[str] | None:
        if not self.ended and (self.process is None or self.process.poll() is not None):
            self.close()
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C reaches the parent alone, which ends its workers
            )
        return self.process

    def fate(self) -> str:
        code = 0 if self.process is None else self.process.wait()
        if code >= 0:
            return f"exit {code}"
        name = signal.Signals(-code).name
        return f"killed by {name}" + (
            ", most likely for lack of memory: run fewer at a time" if name == "SIGKILL" else ""
        )

    def end(self) -> None:
        self.ended = True
        self.close()

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            with suppress(BrokenPipeError), self.process:  # closes the pipes and waits
                pass


@contextmanager
def workers(count: int, root: Path | None, threads: int) -> Iterator[list[Worker]]:
    crew = [Worker(root, threads) for _ in range(count)]
    try:
        yield crew
    finally:
        for worker in crew:
            worker.end()


def serve(threads: int, root: Path | None) -> None:
    """The process as seen from inside."""
    requests: SimpleQueue[Mapping[str, JSON]] = SimpleQueue()
    threading.Thread(target=receive, args=(requests,), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not get among the answers
    import torch

    torch.set_num_threads(threads)
    while True:
        print(json.dumps(answer(requests.get(), root)), file=answers, flush=True)


def receive(requests: "SimpleQueue[Mapping[str, JSON]]") -> None:
    for line in sys.stdin:
        requests.put(json.loads(line))
    os._exit(1)  # the parent has gone


def answer(request: Mapping[str, JSON], root: Path | None) -> Result:
    from normscope.benchmark.protocol import dataset, run  # imports torch, which the parent need not

    if "cell" in request:
        return run(Cell(**request["cell"]), root)  # type: ignore[arg-type]
    try:
        return {"sha256": dataset(str(request["dataset"]), root).sha256}
    except (NormscopeError, OSError) as error:
        return {"error": str(error)}


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
