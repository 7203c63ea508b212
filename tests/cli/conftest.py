"""What the tests of every verb share: the command line run in this process, a folder of images, and a model of it."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from normscope import Detector
from normscope.cli import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys) -> Callable[..., Result]:
    """`run("fit", folder, "-o", model)` → exit code and what was printed."""

    def run_once(*arguments: object) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        return Result(left.value.code or 0, *capsys.readouterr())

    return run_once


@pytest.fixture
def refused(run) -> Callable[..., str]:
    """The one line that is said when the command line is refused."""

    def run_once(*arguments: object) -> str:
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1, err
        return err

    return run_once


def write_images(folder: Path, n: int, *, seed: int = 0, shape: tuple[int, ...] = (28, 28), prefix: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    images = np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{prefix}{number:03}.png")
    return folder


@pytest.fixture
def images() -> Callable[..., Path]:
    return write_images


@pytest.fixture(scope="session")
def good(tmp_path_factory) -> Path:
    return write_images(tmp_path_factory.mktemp("good"), 20)


@pytest.fixture(scope="session")
def model(tmp_path_factory, good) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    Detector("knn", false_alarm_rate=0.2).fit(good).save(path)
    return path
