"""What tests of several rooms share: the same arithmetic on every processor, and cells of the benchmark run at once."""

import pytest

from normscope.training import device


@pytest.fixture(autouse=True, scope="session")
def full_precision():
    """A processor that multiplies bfloat16 in hardware would train in it, and learn a little differently."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "gains_from_bfloat16", lambda device: False)
        yield


class InThisProcess:
    """Stands in for `normscope.benchmark.worker.Worker`, whose process takes seconds to start."""

    def __init__(self, root, threads) -> None:
        self.root, self.threads = root, threads

    def checksum(self, dataset: str) -> str:
        from normscope.benchmark.protocol import dataset as load

        return load(dataset, self.root).sha256

    def run(self, cell) -> dict:
        from normscope.benchmark.protocol import run

        return run(cell, self.root) | {"threads": self.threads}

    def end(self) -> None:
        pass


@pytest.fixture
def in_this_process(monkeypatch) -> type[InThisProcess]:
    """Cells of the benchmark are run in the process of the test."""
    monkeypatch.setattr("normscope.benchmark.worker.Worker", InThisProcess)
    return InThisProcess
