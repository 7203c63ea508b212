"""The server on real sockets: slow clients in a thread of this process, signals in a process of its own."""

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest

from normscope.server import exchange, process
from normscope.server.app import make_app

FORM = "Content-Type: multipart/form-data; boundary=b\r\n"
PART = '--b\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'


@pytest.fixture
def url(served, model, monkeypatch):
    """A server that is ten times less patient than usual."""
    monkeypatch.setattr(process, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(exchange, "PATIENCE", 1.0)
    monkeypatch.setattr(exchange, "LINGER", 0.5)
    with served(make_app(lambda: {"parts": model})) as address:
        yield address


def connected(url):
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=20)


class Dripping:
    """A client that sends a beginning and then a byte every now and then, and reads what it is told."""

    def __init__(self, url, sent) -> None:
        self.connection, self.found, self.closed = connected(url), b"", False
        with suppress(ConnectionError):  # closed at once, which `drip` finds
            self.connection.sendall(sent)
        self.connection.setblocking(False)

    def drip(self, data) -> None:
        with suppress(BlockingIOError, ConnectionError):
            self.connection.sendall(data)
        try:
            while data := self.connection.recv(2**16):
                self.found += data
            self.closed = True
        except BlockingIOError:
            pass
        except ConnectionError:
            self.closed = True


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", b""),
        (b"POST /score HTTP/1.1\r\nHost: x\r\n", b""),
        (f"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n{FORM}\r\n{PART}".encode(), b"HTTP/1.1 408"),
        (b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n", b"HTTP/1.1 200"),
        (b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\nGET /v2", b"HTTP/1.1 200"),
    ],
    ids=["nothing", "half a head", "half a body", "a body that nobody wants", "half of a second request"],
)
@pytest.mark.parametrize("more", [b"x", b""], ids=["slowly", "and no more"])
def test_slow_clients_are_closed_while_others_are_served(url, sent, answered, more):
    """At its usual patience the server takes up to 12 s for it."""
    clients = [Dripping(url, sent) for _ in range(20)]
    assert drip(url, clients, more if sent else b"", seconds=5)[0] == 20
    assert all(client.found.startswith(answered) for client in clients)


def drip(url, clients, data, seconds):
    """How many were closed within that time, and the states of `live` meanwhile."""
    start, states = time.monotonic(), []
    while not all(client.closed for client in clients) and time.monotonic() - start < seconds:
        time.sleep(0.1)
        states.append(httpx.get(f"{url}/v2/health/live", timeout=20).status_code)
        for client in clients:
            client.drip(data)
    for client in clients:
        client.connection.close()
    assert states
    assert set(states) == {200}
    return sum(client.closed for client in clients), len(states)


LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"


def test_a_connection_is_kept_for_longer_than_clients_keep_theirs(url, model, until):
    """Whoever closes first while the next request is on its way loses it: that must be the client."""
    assert process.KEEP_SECONDS > 60
    server = process.make_server(make_app(lambda: {"parts": model}))
    assert server.config.timeout_keep_alive == process.KEEP_SECONDS
    client = Dripping(url, LIVE)
    for seconds in (0.2, 2.5):  # longer than the patience for the head of a request
        time.sleep(seconds)
        client.found = b""
        client.drip(LIVE)
        until(lambda: answered(client))
        assert not client.closed
    client.connection.close()


@pytest.mark.parametrize("sent", [b"", LIVE], ids=["nothing", "a whole request"])
def test_idle_connections_never_use_up_the_open_files(url, monkeypatch, until, sent):
    """The ones that wait longest make room; a request on its way is left alone."""
    monkeypatch.setattr(process, "open_files", lambda: 40)
    monkeypatch.setattr(process, "HEAD_SECONDS", 60.0)  # so that nothing is closed for its slowness
    monkeypatch.setattr(exchange, "PATIENCE", 60.0)
    busy = Dripping(url, f"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n{FORM}\r\n{PART}".encode())
    assert httpx.get(f"{url}/v2/health/live", timeout=20).status_code == 200
    first = [Dripping(url, sent) for _ in range(10)]
    until(lambda: all(answered(client) for client in first) or not sent)  # so that they wait longest
    idle = first + [Dripping(url, sent) for _ in range(50)]
    assert httpx.get(f"{url}/v2/health/live", timeout=20).status_code == 200
    for client in [*idle, busy]:
        client.drip(b"")
        client.connection.close()
    assert sum(client.closed for client in idle) >= 40
    assert all(client.closed for client in first)
    assert not busy.closed


def answered(client):
    client.drip(b"")
    return client.found.startswith(b"HTTP/1.1 200")


@pytest.mark.soak
def test_two_hundred_slow_clients_are_closed_within_fifteen_seconds(running, until, tally):
    """Of the server as it is, with its usual patience."""
    url = json.loads(running.stdout.readline())["url"]
    until(lambda: httpx.get(f"{url}/v2/health/ready", timeout=20).status_code == 200)
    head, body = b"POST /score HTTP/1.1\r\nHost: x\r\n", f"Content-Length: 5000\r\n{FORM}\r\n{PART}".encode()
    clients = [Dripping(url, head + body * (number % 2)) for number in range(200)]
    closed, asked = drip(url, clients, b"x", seconds=15)
    tally("server: slow clients closed within 15 s, live 200 meanwhile", 200, 200 - closed, asked_for_live=asked)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_hundred_megabytes_are_refused_quickly_and_not_kept(url, chunked):
    def body():
        yield PART.encode()
        for _ in range(100):
            yield bytes(10**6)

    headers = {"content-type": "multipart/form-data; boundary=b"} | (
        {} if chunked else {"content-length": str(10**8 + len(PART))}
    )
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    answer = httpx.post(f"{url}/score", content=body(), headers=headers, timeout=20)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert "--max-body-mb" in answer.json()["error"]
    assert time.monotonic() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # KB


def test_many_clients_at_once_lose_nothing(served, model, parts):
    paths = sorted((parts / "good").iterdir()) + sorted((parts / "bad").iterdir())
    expected = [row["score"] for row in model.rows(paths)]

    async def one(client, url, number):
        path = paths[number % len(paths)]
        answer = await client.post(f"{url}/score", files=[("files", (str(number), path.read_bytes()))])
        return answer.json()[0]

    async def all_of_them(url):
        limits = httpx.Limits(max_connections=32)
        async with httpx.AsyncClient(timeout=60, limits=limits) as client:
            return await asyncio.gather(*(one(client, url, number) for number in range(96)))

    with served(make_app(lambda: {"parts": model})) as url:
        rows = asyncio.run(all_of_them(url))
        metrics = httpx.get(f"{url}/metrics").text
    assert [row["path"] for row in rows] == [str(number) for number in range(96)]
    assert [row["score"] for row in rows] == pytest.approx([expected[n % len(paths)] for n in range(96)], rel=1e-5)
    batches = float(metrics.split("\nnormscope_batches_total ")[1].split("\n")[0])
    assert batches < 96  # some were scored together


def test_a_port_that_is_taken_is_said():
    with (
        process.listen("127.0.0.1", 0) as taken,
        pytest.raises(ValueError, match=r"cannot be served .*in use"),
    ):
        process.listen("127.0.0.1", taken.getsockname()[1])


@pytest.fixture
def running(explaining, tmp_path):
    """`normscope serve` as a user starts it."""
    environment = {**os.environ, "NORMSCOPE_MAX_BODY_MB": "0.05", "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "normscope", "serve", str(explaining), "--port", "0", "--json"]
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as one:
        signal.signal(signal.SIGINT, ignored)
        yield one
        one.kill()


def test_a_process_serves_drains_and_ends(running, parts, until, tmp_path):
    started = json.loads(running.stdout.readline())
    assert started["models"] == ["model"]
    url, image, answers = started["url"], (parts / "good" / "0.png").read_bytes(), []
    assert url.startswith("http://127.0.0.1:")
    until(lambda: httpx.get(f"{url}/v2/health/ready", timeout=20).status_code == 200)
    too_long = httpx.post(f"{url}/score", files=[("files", ("a", bytes(60_000)))])
    assert "more than 0.05 MB" in too_long.json()["error"]

    def send():
        try:
            answers.append(httpx.post(f"{url}/score?heatmaps=1", files=[("files", ("a", image))] * 3, timeout=30))
        except httpx.ConnectError:
            answers.append(None)  # it came too late, and nobody took it

    threads = [threading.Thread(target=send) for _ in range(12)]
    for thread in threads[:8]:
        thread.start()
    until(lambda: bool(answers))
    running.send_signal(signal.SIGTERM)
    for thread in threads[8:]:
        thread.start()
    for thread in threads:
        thread.join()
    assert running.wait(20) == 143
    taken = [answer for answer in answers if answer is not None]
    assert len(taken) >= 8
    assert {answer.status_code for answer in taken} <= {200, 503}
    assert sum(answer.status_code == 200 for answer in taken) >= 8
    assert all(answer.headers["retry-after"] for answer in taken if answer.status_code == 503)
    assert "Traceback" not in running.stderr.read()
    assert list(tmp_path.iterdir()) == []  # no upload is left behind


@pytest.mark.slow
def test_control_c_reaches_a_process_in_the_background(running):
    assert json.loads(running.stdout.readline())["models"] == ["model"]
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 130
    assert running.stderr.read().splitlines()[-1] == "interrupted"


def test_connections_do_not_hold_back_small_packets():
    with (
        process.listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
