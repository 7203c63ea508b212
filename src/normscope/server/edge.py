"""Where requests come in: who may, whether now, what they took, and an answer whatever happens inside."""

import hmac
import logging
import time

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from normscope.server.exchange import Exchange
from normscope.server.limits import RETRY
from normscope.server.service import Service

__all__ = ["Edge", "error"]

OPEN = ("/", "/page.css", "/page.js", "/v2/health/live", "/v2/health/ready")  # without a token
logger = logging.getLogger("normscope.server")


class Edge:
    """Pure ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send, self.service.limits, self.service.room)
        start, working = time.monotonic(), scope["method"] == "POST"
        app = self.refusal(scope) or self.app
        self.service.active += working
        try:
            await app(scope, exchange.receive, exchange.send)
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if exchange.status is not None:
                raise
            await error(500, "the server failed, and wrote why to its log")(scope, exchange.receive, exchange.send)
        finally:
            self.service.room.leave(exchange)
            self.service.active -= working
            self.service.last_active = time.monotonic() if working else self.service.last_active
            path = getattr(scope.get("route"), "path", "other")
            self.service.metrics.request(path, exchange.status or 500, time.monotonic() - start)

    def refusal(self, scope: Scope) -> JSONResponse | None:
        if self.service.token is not None and scope["path"] not in OPEN and not self.knows_token(scope):
            return error(401, "this needs the server's token, as `Authorization: Bearer …`", BEARER)
        if self.service.draining and scope["method"] == "POST":
            return error(503, "the server is stopping; try another, or again soon", {**RETRY, "Connection": "close"})
        return None

    def knows_token(self, scope: Scope) -> bool:
        kind, _, given = Headers(scope=scope).get("authorization", "").partition(" ")
        wanted = self.service.token or ""
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), wanted.encode())


BEARER = {"WWW-Authenticate": "Bearer"}


def error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)
