"""A publisher's server on this machine, with everything that goes wrong on real ones."""

import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Server(ThreadingHTTPServer):
    """`files` by path; `ranges` holds the Range header of every request, None where there was none."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.ranges: list[str | None] = []
        self.cuts: list[int] = []  # one for each of the next requests: drop the connection after so many bytes
        self.knows_ranges = True
        self.says_length = True
        self.status = 200
        self.crawl_after: int | None = None  # bytes after which nothing more comes, though the connection stays

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed is no news."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.ranges.append(wanted)
        content = server.files.get(self.path)
        if content is None or server.status != 200:
            self.send_error(404 if content is None else server.status)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted and server.knows_ranges else 0
        if wanted and server.knows_ranges and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if wanted and server.knows_ranges else 200)
        if server.says_length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.send(content[start:])

    def send(self, content: bytes) -> None:
        if self.server.cuts:
            content = content[: self.server.cuts.pop(0)]
        if self.server.crawl_after is None:
            self.wfile.write(content)
            return
        self.wfile.write(content[: self.server.crawl_after])
        time.sleep(60)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
