"""One request and its answer as they pass through: how much is read, how long it may take, which headers go out."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from normscope.server.limits import RETRY, Limits, Room

__all__ = ["Exchange"]

PATIENCE = 10.0  # seconds for which a client may keep us waiting for its body,
SLOWEST = 50_000  # and one more for each so many bytes
JSON_BYTES = 14  # of memory for each byte of JSON, measured with pixels as numbers; forms are kept as they are
LINGER = 2.0  # seconds in which a client that is still sending can read why it should not

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


class Exchange:
    """`receive` and `send` of ASGI for one request, within limits. No more of a body is kept than the part at hand."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: Limits, room: Room) -> None:
        headers = Headers(scope=scope)
        self.inner_receive, self.inner_send, self.limits, self.room = receive, send, limits, room
        self.weight = 1 if headers.get("content-type", "").lower().startswith("multipart/") else JSON_BYTES
        self.declared = int(headers.get("content-length", "0"))
        self.unread = self.declared > 0 or "transfer-encoding" in headers  # the body, or a part of it
        self.received = 0
        self.waited = 0.0
        self.closing = False  # whether the connection ends with this answer
        self.status: int | None = None

    async def receive(self) -> Message:
        if not self.unread:
            return await self.inner_receive()
        if self.declared > self.limits.body:
            raise HTTPException(413, self.limits.body_exceeded)
        message = await self.next_part()
        if self.received > self.limits.body:
            raise HTTPException(413, self.limits.body_exceeded)
        if not self.room.take(self, self.weight * len(message.get("body", b""))):
            raise HTTPException(503, self.limits.room_exceeded, RETRY)
        return message

    async def next_part(self) -> Message:
        start = time.monotonic()
        try:
            async with asyncio.timeout(max(PATIENCE + self.received / SLOWEST - self.waited, 0)):
                message = await self.inner_receive()
        except TimeoutError:
            raise HTTPException(
                408, f"the request came too slowly: {self.received} bytes in {self.waited + PATIENCE:.0f} s"
            ) from None
        self.waited += time.monotonic() - start
        if message["type"] == "http.disconnect":
            self.unread = False
            raise HTTPException(400, "the client left before its request was complete")
        self.received += len(message.get("body", b""))
        self.unread = message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(raw=list(message.get("headers", [])))
            for name, value in SECURITY.items():
                headers.setdefault(name, value)
            if self.unread or self.closing:
                headers["connection"] = "close"
            message = {**message, "headers": headers.raw}
        elif self.unread and not message.get("more_body", False):
            # To close at once would reset the connection, and the answer might be lost with it.
            await self.inner_send({**message, "more_body": True})
            await self.discard_rest()
            message = {"type": "http.response.body"}
        await self.inner_send(message)

    async def discard_rest(self) -> None:
        with suppress(TimeoutError, HTTPException):
            async with asyncio.timeout(LINGER):
                while self.unread:
                    await self.next_part()
