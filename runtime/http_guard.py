"""What both listeners check before anything of a request is looked at."""

import json
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


class HostGuard:
    """Refuses requests for other hosts and from other origins (DNS rebinding)."""

    def __init__(self, app: ASGIApp, *, allowed_hosts: Iterable[str]) -> None:
        """Wrap `app`; loopback names are always allowed."""
        self._app = app
        self._allowed = _LOOPBACK | {host.lower() for host in allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 421 (host) or 403 (origin)."""
        if scope["type"] == "http":
            hosts = _values(scope, b"host")
            if len(hosts) != 1 or _bare(hosts[0]) not in self._allowed:
                text = "This Host is not served here; add it to listen.allowed_hosts."
                await refuse(send, HTTPStatus.MISDIRECTED_REQUEST, text)
                return
            for origin in _values(scope, b"origin"):
                if _bare(urlsplit(origin).netloc) not in self._allowed:
                    text = "This Origin may not call; add its host to listen.allowed_hosts."
                    await refuse(send, HTTPStatus.FORBIDDEN, text)
                    return
        await self._app(scope, receive, send)


class _TooLargeError(Exception):
    """The body went over its bound while it was read."""


class BodyLimit:
    """Answers 413 to a request whose body goes over a bound, before it is buffered."""

    def __init__(self, app: ASGIApp, *, bytes_max: int) -> None:
        """Wrap `app`."""
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its body counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = _values(scope, b"content-length")
        if declared and declared[0].isdigit() and int(declared[0]) > self._bytes_max:
            await self._refuse(send)
            return
        taken, answered = 0, False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._bytes_max:
                raise _TooLargeError
            return message

        async def noted(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            await self._app(scope, counted, noted)
        except _TooLargeError:
            if not answered:
                await self._refuse(send)

    async def _refuse(self, send: Send) -> None:
        text = f"The body is larger than listen.body_bytes_max = {self._bytes_max} bytes."
        await refuse(send, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)


async def refuse(
    send: Send, status: HTTPStatus, text: str, *, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer with a problem document (RFC 9457)."""
    body = json.dumps(
        {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": text}
    ).encode()
    await send(
        {
            "type": "http.response.start",
            "status": status.value,
            "headers": [
                (b"content-type", b"application/problem+json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _bare(host: str) -> str:
    """Return a host without its port, in lower case."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdigit() else host.lower()
