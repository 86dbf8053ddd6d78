"""The answer to one request: JSON, or events once it has taken long."""

from http import HTTPStatus

import anyio
from starlette.types import Send

_JSON = (b"content-type", b"application/json")
_EVENTS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class Reply:
    """Sends one answer."""

    __slots__ = ("_is_over", "_lock", "_send")

    def __init__(self, send: Send) -> None:
        """Take the client's channel; nothing is sent."""
        self._send = send
        self._lock: anyio.Lock | None = None  # there once events were begun
        self._is_over = False

    async def stay_awake(self) -> None:
        """Send something without a meaning, so that nothing on the way gives the client up."""
        if self._lock is None:
            if self._is_over:
                return
            self._lock = anyio.Lock()
            async with self._lock:
                start = {"type": "http.response.start", "status": HTTPStatus.OK}
                await self._send({**start, "headers": _EVENTS})
        async with self._lock:
            if not self._is_over:
                await self._send(
                    {"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True}
                )

    async def end(self, body: bytes, *, status: int = HTTPStatus.OK) -> None:
        """Send the message that answers; as an event it has no status of its own."""
        if self._lock is not None:
            async with self._lock:
                self._is_over = True
                event = b"event: message\r\ndata: " + body + b"\r\n\r\n"
                await self._send({"type": "http.response.body", "body": event})
            return
        self._is_over = True
        headers = [_JSON, (b"content-length", b"%d" % len(body))]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})
