"""What tests of the server share: images as bytes, a model, and the application with and without a socket."""

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from fastapi import FastAPI
from PIL import Image
from starlette.testclient import TestClient

from normscope.model import Model, load
from normscope.server.app import make_app
from normscope.server.limits import Limits
from normscope.server.process import listen, make_server


@pytest.fixture(scope="session")
def png() -> Callable[[np.ndarray], bytes]:
    def encoded(pixels: np.ndarray) -> bytes:
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "PNG")
        return stream.getvalue()

    return encoded


@pytest.fixture(scope="session")
def model(explaining) -> Model:
    return load(explaining)


@pytest.fixture(scope="session")
def good(parts) -> list[bytes]:
    return [path.read_bytes() for path in sorted((parts / "good").iterdir())]


@pytest.fixture(scope="session")
def bad(parts) -> list[bytes]:
    return [path.read_bytes() for path in sorted((parts / "bad").iterdir())]


@pytest.fixture
def started(model) -> Iterator[Callable[..., TestClient]]:
    """`started(limits, token)` → a client of an application of its own, whose models are loaded."""
    with ExitStack() as ending:

        def start(limits: Limits | None = None, token: str | None = None, models: object = None) -> TestClient:
            app = make_app(lambda: models or {"parts": model}, limits, token)
            client = ending.enter_context(TestClient(app))
            wait_for(lambda: app.state.service.ready)
            return client

        yield start


@pytest.fixture
def client(started) -> TestClient:
    return started()


@contextmanager
def on_a_socket(app: FastAPI) -> Iterator[str]:
    """The address at which the application is served, by a thread of this process."""
    server = make_server(app)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            wait_for(lambda: app.state.service.ready)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            app.state.service.drain()
            app.state.service.last_active, server.should_exit = 0.0, True
            thread.join()


@pytest.fixture(scope="session")
def served() -> Callable:
    return on_a_socket


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def until() -> Callable:
    return wait_for
