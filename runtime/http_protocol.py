"""HTTP/1.1 as the listeners parse it: in C, with the care for clients that the server lacks."""

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from runtime import connections
from runtime.connections import PIECE_BYTES, SECONDS_MAX, Wait, Waiting, pause_after
from runtime.http_flow import HeldFlow, InOneWrite

HEAD_BYTES_MAX = 64 * 1024
HEADERS_MAX = 256
# Requests of one connection that wait for the answers to those before them.
PIPELINED_MAX = 8
# Connections that are begun to be closed before the server would turn requests away.
ROOM = 64
_TOO_LARGE = f"The headers are larger than {HEAD_BYTES_MAX} bytes."
_TOO_MANY = f"There are more than {PIPELINED_MAX} requests before their answers."
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


class BoundedHttp(HttpToolsProtocol):
    """Bounds what a client may send before it is served, and how long it may take for it."""

    def __init__(self, config: Any, server_state: ServerState, *more: Any, **named: Any) -> None:
        """Take what the server gives."""
        super().__init__(config, server_state, *more, **named)
        self._waiting = _waiting.setdefault(server_state, Waiting())
        self._is_in_head = self._is_in_body = False
        self._has_begun = False  # the head that is read, with what was read last
        self._head_bytes = self._raw_bytes = self._body_bytes = self._progress_bytes = 0
        self._fault = ""
        self._served: RequestResponseCycle | None = None  # the request that was begun last
        self._is_last_read = False
        self._pieces = 0
        self._reading_on: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request, in place of whoever rested longest if there is no room."""
        in_one: Any = InOneWrite(transport, self.loop)
        super().connection_made(in_one)
        self.flow = HeldFlow(in_one, self.pipeline)
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
        served = self._served
        if served is not None and not served.response_complete:
            # The server tells the request that was read last, which may not be served yet.
            served.disconnected = True
            served.message_event.set()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._is_in_head = self._has_begun = True
        self._head_bytes = self._raw_bytes = self._progress_bytes = 0
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
        """Stop counting; the request is under way from here.

        Raises:
            HttpParserError: too many wait before it.
        """
        if len(self.pipeline) >= PIPELINED_MAX:
            raise httptools.HttpParserError(_TOO_MANY)
        self._is_in_head, self._is_in_body = False, True
        self._waiting.wake(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, which everything here reads whole: nobody is woken for it."""
        self._body_bytes += len(body)
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
        if (self._is_in_head or self._is_in_body) and not self.transport.is_closing():
            self._waiting.only(self, self._awaited)

    def data_received(self, data: bytes) -> None:
        """Take what came, up to the bounds."""
        if self._is_last_read:
            return
        self._has_begun, self._body_bytes = False, 0
        super().data_received(data)
        if self.transport.is_closing() or self._is_last_read:
            return
        if self._is_in_head:
            # A header without an end is not told by the parser before that end.
            self._raw_bytes += self._of_the_line(data) if self._has_begun else len(data)
            if self._raw_bytes > HEAD_BYTES_MAX:
                self.send_400_response(_TOO_LARGE)
                return
        self._progress_bytes += self._body_bytes
        if self._progress_bytes >= connections.PROGRESS_BYTES:
            self._progress_bytes = 0
            self._waiting.end(Wait.BODY, self)
        self._waiting.only(self, self._awaited)
        if self._awaited is None:
            self._pieces = 0
            return
        if len(data) < PIECE_BYTES:
            self._pieces += 1
            self._read_later()

    def _of_the_line(self, data: bytes) -> int:
        """Return at most how much of `data` is the line that it ends in, of a head it began.

        What is before is the end of a request: a body, or lines.
        """
        return min(len(data) - self._body_bytes, len(data) - data.rfind(b"\n") - 1)

    @property
    def _is_answering(self) -> bool:
        return self._served is not None and not self._served.response_complete

    @property
    def _awaited(self) -> Wait | None:
        """Return what of a request the client is to send now.

        Behind an answer that is under way nobody waits for it, and it may not even be read.
        """
        if self._is_answering:
            is_its_body = self._is_in_body and self._served is self.cycle
            return Wait.BODY if is_its_body else None
        # Empty lines before a request are none of it, and stop the clock of the server.
        return Wait.BODY if self._is_in_body else Wait.HEAD

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

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
        """Refuse a request, and say what is wrong with it where that is known here.

        Behind an answer that is under way nothing can be said: the connection closes after the
        answers to those before it, and whoever sent more sends it again elsewhere.
        """
        served = self._served
        if served is None or served.response_complete:
            super().send_400_response(self._fault or msg)
        elif served is not self.cycle or not self._is_in_body:
            self._close_after_answers(served)
        elif served.response_started:
            self.transport.close()
        else:
            super().send_400_response(self._fault or msg)

    def _close_after_answers(self, served: RequestResponseCycle) -> None:
        """Serve the whole requests that were read, and read no more."""
        if self._is_in_body and self.pipeline:
            self.pipeline.popleft()  # the refused one, whose body will not come
        last = self.pipeline[0][0] if self.pipeline else served
        last.keep_alive = False
        self._is_last_read = True
        self._waiting.only(self, None)

    def give_up(self, wait: Wait) -> None:
        """Close: the client took too long. Who has sent something is told so."""
        has_asked = self._is_in_head or self._is_in_body
        if wait is Wait.READER or not has_asked:
            self.transport.abort()
            return
        is_answered = self._served is not None and self._served.response_started
        if not is_answered or (wait is Wait.HEAD and not self._is_answering):
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
