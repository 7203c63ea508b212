"""What tests of several rooms share: the same arithmetic on every processor, heads that learn briefly, cells of the
benchmark run at once, a model with heat maps, a browser, and the tally of faults."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from normscope import Detector
from normscope.benchmark import results
from normscope.benchmark.commit import commit
from normscope.scoring import defects, held_out
from normscope.training import device


@pytest.fixture(autouse=True, scope="session")
def full_precision():
    """A processor that multiplies bfloat16 in hardware would train in it, and learn a little differently."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "gains_from_bfloat16", lambda device: False)
        yield


@pytest.fixture(autouse=True, scope="session")
def brief_heads():
    """Heads for self-made defects learn in fewer steps and for fewer folds: most tests are not about how well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(defects, "MOST", defects.FEWEST)
        patch.setattr(held_out, "MOST", held_out.FEWEST)
        yield


@pytest.fixture(autouse=True, scope="session")
def interruptible():
    """A run in the background of a shell inherits that SIGINT is ignored; tests send it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def no_wakeup_left_behind():
    """A byte for every signal would go to a file descriptor that may be another file by then, such as the pipe to the
    process that runs the tests."""
    yield
    assert signal.set_wakeup_fd(-1) == -1


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


def stripes(n: int, *, seed: int = 0, shape: tuple[int, int] = (48, 64)) -> np.ndarray:
    """[n, *shape]: normal images."""
    rng = np.random.default_rng(seed)
    columns = 120 + 60 * np.sin(np.arange(shape[1]) / 3)
    return np.clip(columns + rng.normal(0, 12, (n, *shape)), 0, 255).astype(np.uint8)


def with_patch(images: np.ndarray) -> np.ndarray:
    """The same with a bright square in the upper left quarter."""
    images = images.copy()
    images[:, 8:20, 8:20] = 255
    return images


@pytest.fixture(scope="session")
def explaining(tmp_path_factory) -> Path:
    """A model file: an untrained encoder of the default method, whose heat maps are on their usual scale."""
    path = tmp_path_factory.mktemp("explaining") / "model.safetensors"
    settings = {"width": 16, "depth": 1}
    Detector("surprisal", settings=settings, epochs=0, false_alarm_rate=0.1).fit(stripes(80), allow_collapse=True).save(
        path
    )
    return path


@pytest.fixture(scope="session")
def parts(tmp_path_factory) -> Path:
    """A folder: eight good images and four with a patch, in two folders with the same names, and one unreadable."""
    folder = tmp_path_factory.mktemp("parts")
    for name, images in (("good", stripes(8, seed=1)), ("bad", with_patch(stripes(4, seed=2)))):
        (folder / name).mkdir()
        for number, image in enumerate(images):
            Image.fromarray(image).save(folder / name / f"{number}.png")
    (folder / "cut-off.png").write_bytes(b"\x89PNG\r\n")
    return folder


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
REQUIRED = os.environ.get("NORMSCOPE_BROWSER") == "required"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """A real Chromium: Debian's package. Without one the test is skipped, unless NORMSCOPE_BROWSER=required."""
    if not REQUIRED:
        pytest.importorskip("playwright", reason="needs playwright (extra `dev`)")
        if CHROMIUM is None:
            pytest.skip("needs Chromium (Debian's package chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def window(browser) -> Iterator[Callable]:
    """`window(address, home, color_scheme="dark")` → that page, in a window of its own. It is a failure if it has an
    error that is not `allowed`, opens a dialog, or asks for anything that does not begin with `home`."""
    contexts, wrong = [], []

    def open_page(address: str, home: str, *, allowed: str = "", **options: object):
        contexts.append(browser.new_context(**options))
        page, own = contexts[-1].new_page(), (home, "data:", "blob:")
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        page.on("console", lambda message: (allowed and allowed in message.text) or wrong.append(message.text))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}") or dialog.dismiss())
        page.on("request", lambda request: request.url.startswith(own) or wrong.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


class Tally:
    """Counts what is tried and what is lost of it; `make soak` keeps the counts in results/reliability.jsonl."""

    def __init__(self) -> None:
        self.began = time.perf_counter()

    def __call__(self, what: str, tried: int, lost: int, **more: float | str) -> None:
        line = {"what": what, "tried": tried, "lost": lost, **more}
        line |= {"seconds": round(time.perf_counter() - self.began, 1), "commit": commit()}
        if path := os.environ.get("NORMSCOPE_RELIABILITY"):
            results.append(Path(path), line)
        assert lost == 0, json.dumps(line)


@pytest.fixture
def tally() -> Tally:
    return Tally()
