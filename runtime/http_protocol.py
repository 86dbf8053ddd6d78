"""HTTP/1.1 as the listeners parse it: in C, with the care for clients that the server lacks."""

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from runtime.connections import PIECE_BYTES, SECONDS_MAX, Wait, Waiting, pause_after

HEAD_BYTES_MAX = 64 * 1024
HEADERS_MAX = 256
# Connections that are begun to be closed before the server would turn requests away.
ROOM = 64
_TOO_LARGE = f"The headers are larger than {HEAD_BYTES_MAX} bytes."
_TOO_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n\r\n%b"
)
_WORDS = {
    wait: f"The {wait} of the request took longer than {SECONDS_MAX[wait]:.0f} seconds.".encode()
    for wait in (Wait.HEAD, Wait.BODY)
}
# The server makes a protocol for each connection; what those of one listener share hangs on it.
_waiting: WeakKeyDictionary[ServerState, Waiting] = WeakKeyDictionary()


class _InOneWrite:
    """A transport that sends what is written in one turn of the loop as one piece.

    The head of an answer and its body come as two writes, and each is a system call that costs
    more than all that was done to say what is in it.
    """

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Send `data` at the end of this turn."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send what was written, then close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Return what the transport itself has: all but writing is its own."""
        return getattr(self._transport, name)

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts))


class BoundedHttp(HttpToolsProtocol):
    """Bounds what a client may send before it is served, and how long it may take for it."""

    def __init__(self, config: Any, server_state: ServerState, *more: Any, **named: Any) -> None:
        """Take what the server gives."""
        super().__init__(config, server_state, *more, **named)
        self._waiting = _waiting.setdefault(server_state, Waiting())
        self._is_in_head = self._is_in_body = False
        self._head_bytes = self._raw_bytes = 0
        self._fault = ""
        self._pieces = 0
        self._reading_on: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, in place of whoever rested longest if there is no room."""
        in_one: Any = _InOneWrite(transport, self.loop)
        super().connection_made(in_one)
        limit = self.limit_concurrency
        if limit is not None and len(self.connections) > limit - ROOM:
            self._waiting.make_room()
        self._waiting.rest(self)
        self._waiting.begin(Wait.REQUEST, self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._waiting.forget(self)
        if self._reading_on is not None:
            self._reading_on.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._is_in_head, self._head_bytes, self._raw_bytes = True, 0, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, without the white space around its value, which is no part of it."""
        self._count(len(name) + len(value))
        if len(self.headers) >= HEADERS_MAX:
            self._fault = f"There are more than {HEADERS_MAX} headers."
            raise httptools.HttpParserError(self._fault)
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Stop counting; the request is under way from here."""
        self._is_in_head, self._is_in_body = False, True
        self._waiting.wake(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, which everything here reads whole: nobody is woken for it."""
        if self.cycle.response_complete:
            return
        self.cycle.body += body
        if len(self.cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
            self.cycle.message_event.set()

    def on_message_complete(self) -> None:
        """Wait for nothing more of the request."""
        self._is_in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Rest until the next request."""
        if not self.pipeline and not self.transport.is_closing():
            self._waiting.rest(self)
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came, up to the bounds."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_in_head:
            # A header without an end is not told by the parser before that end.
            self._raw_bytes += len(data)
            if self._raw_bytes > HEAD_BYTES_MAX:
                self.send_400_response(_TOO_LARGE)
                return
        is_idle = self.cycle is None or self.cycle.response_complete
        if self._is_in_body:
            self._waiting.only(self, Wait.BODY)
        elif self._is_in_head or is_idle:
            # Empty lines before a request are none of it, and stop the clock of the server.
            self._waiting.only(self, Wait.HEAD)
        else:
            self._waiting.only(self, None)
            self._pieces = 0
            return
        if len(data) < PIECE_BYTES:
            self._pieces += 1
            self._read_later()

    def _read_later(self) -> None:
        """Let a client be that sends little by little; what it says meanwhile waits in the kernel.

        Ten thousand of them would else have a loop that is always busy with a byte of somebody.
        """
        seconds = pause_after(self._pieces)
        if seconds and not self.flow.read_paused:
            self.flow.pause_reading()
            self._reading_on = self.loop.call_later(seconds, self._read_on)

    def _read_on(self) -> None:
        self._reading_on = None
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def pause_writing(self) -> None:
        """Wait for the client to read on."""
        self._waiting.begin(Wait.READER, self)
        super().pause_writing()

    def resume_writing(self) -> None:
        """Wait no more: the client has read on."""
        self._waiting.end(Wait.READER, self)
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request, and say what is wrong with it where that is known here."""
        super().send_400_response(self._fault or msg)

    def give_up(self, wait: Wait) -> None:
        """Close: the client took too long. Who has sent something is told so."""
        is_answered = self.cycle is not None and self.cycle.response_started
        has_asked = self._is_in_head or self._is_in_body
        if wait is Wait.READER or not has_asked:
            self.transport.abort()
            return
        if not is_answered or wait is Wait.HEAD:
            words = _WORDS[wait]
            self.transport.write(_TOO_LATE % (len(words), words))
        self.transport.close()

    def give_way(self) -> None:
        """Close: nothing is under way, and others need the room."""
        self.transport.abort()

    def _count(self, size: int) -> None:
        """Count what is in the head.

        Raises:
            HttpParserError: that is too much.
        """
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES_MAX:
            self._fault = _TOO_LARGE
            raise httptools.HttpParserError(self._fault)
