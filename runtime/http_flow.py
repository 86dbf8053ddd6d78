"""When a connection's bytes are read and written: not before others are served, not one by one."""

import asyncio
from collections.abc import Collection
from typing import Any

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl


class InOneWrite:
    """A transport that sends what is written in one turn of the loop as one piece.

    The head of an answer and its body come as two writes, and each is a system call that costs
    more than all that was done to say what is in it.
    """

    __slots__ = ("_bytes", "_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Take the transport itself."""
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._bytes = 0

    def write(self, data: bytes) -> None:
        """Send `data` at the end of this turn; at once when that is more than a little."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._bytes += len(data)
        if self._bytes > HIGH_WATER_LIMIT:
            # Whoever writes on without a pause is to meet the transport's own limit.
            self._flush()

    def close(self) -> None:
        """Send what was written, then close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Return what the transport itself has: all but writing is its own."""
        return getattr(self._transport, name)

    def _flush(self) -> None:
        parts, self._parts, self._bytes = self._parts, [], 0
        if parts:
            self._transport.write(b"".join(parts))


class HeldFlow(FlowControl):
    """Reads nothing more while requests wait: the server would read on with every answer."""

    def __init__(self, transport: asyncio.Transport, waiting: Collection[object]) -> None:
        """Take the requests that wait, as they are at each moment."""
        super().__init__(transport)
        self._waiting_requests = waiting

    def resume_reading(self) -> None:
        """Read on, unless what was read is still to be served."""
        if not self._waiting_requests:
            super().resume_reading()
