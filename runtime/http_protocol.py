"""HTTP/1.1 as the listeners parse it: in C, with the care for headers that the parser lacks."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 64 * 1024


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
    """Gives up a request whose headers have no end; by itself the parser collects them all."""

    _is_in_head = False
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        in_one: Any = _InOneWrite(transport, self.loop)
        super().connection_made(in_one)

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, without the white space around its value, which is no part of it."""
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Stop counting."""
        self._is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came, up to the bound."""
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.send_400_response(f"The headers are larger than {HEAD_BYTES_MAX} bytes.")
