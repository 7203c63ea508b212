"""The process that serves: uvicorn, with an eye on slow clients and an orderly end."""

import asyncio
import logging
import math
import socket
import sys
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from normscope.errors import NormscopeError
from normscope.server.service import Service

__all__ = ["listen", "make_server", "run"]

HEAD_SECONDS = 10.0  # for the head of a request, from its first byte or from the connection on
# A connection is kept for longer than clients keep theirs (httpx 5 s, aiohttp 15 s, nginx 60 s): if it is closed when
# its next request is already on the way, that request is lost, and a client must not send it twice by itself.
KEEP_SECONDS = 75
UNREAD_SECONDS = 30.0  # in which a client must read some of an answer that waits for it


def open_files() -> int:
    """How many this process may have besides about a hundred of its own: connections and uploads."""
    if sys.platform == "win32":
        return 400
    import resource

    return max(min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 20_000) - 100, 16)


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections, which wait until the server runs; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise NormscopeError(
            f"{host}:{port} cannot be served ({error.strerror}); give another --host or --port"
        ) from error
    # Connections inherit it. asyncio sets it for sockets of its own making alone, and without it an answer, which is
    # sent in two pieces, waits 40 ms for the client to acknowledge the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def run(app: FastAPI, listening: socket.socket) -> None:
    """Until a signal comes, and everything in flight is answered; raises what kept the models from being loaded."""
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns of every form that it cannot read
    make_server(app).run(sockets=[listening])
    service: Service = app.state.service
    if service.batcher.failure is not None:
        raise service.batcher.failure


def make_server(app: FastAPI) -> "Server":
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_SECONDS,
        timeout_graceful_shutdown=5,
        backlog=min(256, open_files() // 4),  # so many are taken at once, before any can be closed
    )
    return Server(config, app.state.service)


class Server(uvicorn.Server):
    """Ends once nothing is in flight, or at a second Ctrl-C."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.service.drain()
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        ending = await super().on_tick(counter)
        if self.service.batcher.failure is not None:
            return True
        return ending and (self.force_exit or self.service.drained)


class Protocol(H11Protocol):
    """uvicorn's, and closes connections on which a request does not arrive, or an answer is not read.

    At most half of the open files that there may be are connections: one more, and the one that has waited longest for
    a request is closed.
    """

    waiting: asyncio.TimerHandle | None = None
    stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.expect_head()
        if len(self.connections) > open_files() // 2:
            kept = [one for one in self.connections if isinstance(one, Protocol) and not one.transport.is_closing()]
            min(kept, key=lambda one: one.idle_since).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cancel_timers()
        elif self.waiting is None:
            self.expect_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self.conn.trailing_data[0]:  # the beginning of a next request
            self.expect_head()

    def expect_head(self) -> None:
        self.waiting = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    @property
    def idle_since(self) -> float:
        """When it began to wait for a request, by the loop's clock; infinity while one is on its way."""
        timers = ((self.waiting, HEAD_SECONDS), (self.timeout_keep_alive_task, KEEP_SECONDS))
        return min((timer.when() - seconds for timer, seconds in timers if timer is not None), default=math.inf)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stuck = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.cancel_timers()

    def connection_lost(self, exc: Exception | None) -> None:
        self.cancel_timers()
        super().connection_lost(exc)

    def cancel_timers(self) -> None:
        for timer in (self.waiting, self.stuck):
            if timer is not None:
                timer.cancel()
        self.waiting = self.stuck = None
