"""A model provider on a real socket that plays scripts, byte by byte where a test wants it.

It is raw on purpose: a server framework would mend what a script is to break.
"""

import json
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

_HEAD_BYTES_MAX = 65_536
_EVENTS = "text/event-stream; charset=utf-8"
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Stall:
    """The script goes on when the test sets the event."""

    until: anyio.Event


@dataclass(frozen=True, slots=True)
class Break:
    """The connection ends here, in the middle of what was announced."""


Step = bytes | Stall | Break


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """One answer: its steps are written one after the other, each in a chunk of its own."""

    steps: tuple[Step, ...]
    status: int = 200
    content_type: str = _JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it arrived; names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.content)
        return body


@dataclass
class Upstream:
    """What is played next, and what was asked; without a script every request is answered 500."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    script: deque[Play] = field(default_factory=deque)
    # Where no script is left.
    always: Play | None = None
    # Set for each connection whose client left before its answer was whole.
    left: anyio.Event = field(default_factory=anyio.Event)
    arrived: anyio.Event = field(default_factory=anyio.Event)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def plays(self, *plays: Play) -> None:
        """Add answers to the script; each request takes one."""
        self.script.extend(plays)

    async def serve(self, stream: SocketStream) -> None:
        """Answer the requests of one connection, until either side ends it."""
        async with stream:
            try:
                while (request := await _request(stream)) is not None:
                    self.received.append(request)
                    self.arrived.set()
                    if not await self._answer(stream, self._next()):
                        return
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
                self.left.set()

    def _next(self) -> Play:
        if self.script:
            return self.script.popleft()
        return self.always or failing(500, {"error": {"message": "nothing is scripted"}})

    async def _answer(self, stream: SocketStream, play: Play) -> bool:
        """Play an answer; tell whether the connection is good for another."""
        await stream.send(_head(play))
        for step in play.steps:
            match step:
                case Break():
                    return False
                case Stall(until=until):
                    if not await _stalled(stream, until):
                        self.left.set()
                        return False
                case bytes():
                    if step:
                        await stream.send(b"%x\r\n%b\r\n" % (len(step), step))
        await stream.send(b"0\r\n\r\n")
        return True


@asynccontextmanager
async def an_upstream(*plays: Play, always: Play | None = None) -> AsyncIterator[Upstream]:
    """Serve a scripted provider on loopback while the block runs."""
    upstream = Upstream(always=always)
    upstream.plays(*plays)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    upstream.port = listener.extra(SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, upstream.serve)
        try:
            yield upstream
        finally:
            tasks.cancel_scope.cancel()


def answering(body: Mapping[str, object], *, status: int = 200, **headers: str) -> Play:
    """Return a whole answer."""
    return Play(steps=(json.dumps(body).encode(),), status=status, headers=headers)


def failing(status: int, body: Mapping[str, object] | bytes, **headers: str) -> Play:
    """Return a failure, with a body of JSON or of anything."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Play(steps=(content,), status=status, headers=named)


def streaming(events: Iterable[bytes], *steps: Step) -> Play:
    """Return a stream, each event in a chunk of its own, and what comes after it."""
    return Play(steps=(*events, *steps), content_type=_EVENTS)


def broken_at(content: bytes, place: int) -> Play:
    """Return a stream that breaks off after so many bytes."""
    return Play(steps=(content[:place], Break()), content_type=_EVENTS)


def in_pieces(content: bytes, size: int) -> Play:
    """Return a stream cut in pieces of one size, wherever its events and characters end."""
    pieces = (content[at : at + size] for at in range(0, len(content), size))
    return Play(steps=tuple(pieces), content_type=_EVENTS)


def _head(play: Play) -> bytes:
    lines = [
        f"HTTP/1.1 {play.status} {_phrase(play.status)}",
        f"Content-Type: {play.content_type}",
        "Transfer-Encoding: chunked",
        *(f"{name}: {value}" for name, value in play.headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Scripted"


async def _stalled(stream: SocketStream, until: anyio.Event) -> bool:
    """Wait for the test; tell whether the client still waits too."""
    is_there = True
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            nonlocal is_there
            try:
                await stream.receive(1)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                is_there = False
                tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        await until.wait()
        tasks.cancel_scope.cancel()
    return is_there


async def _request(stream: SocketStream) -> Received | None:
    """Return the next request of a connection, None at its end."""
    taken = bytearray()
    while b"\r\n\r\n" not in taken:
        assert len(taken) < _HEAD_BYTES_MAX, "the head of a request is too long"
        try:
            taken += await stream.receive()
        except anyio.EndOfStream:
            return None
    head, _, rest = bytes(taken).partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    content = bytearray(rest)
    announced = int(headers.get("content-length", "0"))
    while len(content) < announced:
        content += await stream.receive()
    return Received(method=method, path=path, headers=headers, content=bytes(content))
