"""HTTP/1.1 to one server over kept connections, parsed in C and told apart where it fails.

A general client spends more time on what no upstream needs (cookies, redirects, proxies,
encodings) than a governed call takes altogether.
"""

import asyncio
import select
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

import anyio
import httptools

from tool_gateway.egress.ways import Ways
from tool_gateway.errors import (
    UpstreamFailedError,
    UpstreamLateError,
    UpstreamLostError,
    UpstreamNotReachedError,
    UpstreamRefusedError,
)
from tool_gateway.upstreams.origin import Origin

CONNECT_SECONDS_MAX = 10.0
# An address that does not answer must not use up the time of the next one.
ADDRESS_SECONDS_MAX = 3.0
CONNECTIONS_MAX = 1_024
KEPT_MAX = 256
# Servers commonly close after five seconds; a request that meets the closing is charged.
KEPT_SECONDS_MAX = 4.0
DRAIN_SECONDS_MAX = 0.05
HEAD_BYTES_MAX = 64 * 1024
UNREAD_BYTES_MAX = 256 * 1024
_INTERIM = range(100, 200)


class Response:
    """One answer: its head, and its body as it comes."""

    __slots__ = ("_connection", "headers", "status")

    def __init__(
        self, status: int, headers: Mapping[bytes, bytes], connection: "_Connection"
    ) -> None:
        """Take the head that was read."""
        self.status = status
        self.headers = headers
        self._connection = connection

    @property
    def media_type(self) -> bytes:
        """Return the type of the body, in lower case and without parameters."""
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()

    async def read(self, bytes_max: int) -> bytes:
        """Return the whole body.

        Raises:
            UpstreamFailedError: it broke off, or is larger than `bytes_max`.
        """
        connection = self._connection
        while not connection.is_complete:
            await connection.more()
            if connection.unread_bytes > bytes_max:
                raise UpstreamFailedError(f"the answer is larger than {bytes_max} bytes")
        if connection.unread_bytes > bytes_max:
            raise UpstreamFailedError(f"the answer is larger than {bytes_max} bytes")
        return connection.taken()

    async def begins_with(self) -> bytes:
        """Return the first bytes of the body without taking them, b"" where it is empty.

        Raises:
            UpstreamFailedError: it broke off before.
        """
        connection = self._connection
        while not connection.unread_bytes and not connection.is_complete:
            await connection.more()
        return connection.first

    def wait_until(self, deadline: float) -> None:
        """Take the answer for lost that is not complete by `deadline`, a time of the loop's."""
        self._connection.wait_until(deadline)

    async def drain(self) -> None:
        """Wait a moment for the end of a body whose rest nobody needs.

        It usually comes with what was read last, and the connection can then be kept.
        """
        if self._connection.is_complete:
            self._connection.taken()
            return
        with anyio.move_on_after(DRAIN_SECONDS_MAX), suppress(UpstreamFailedError):
            while not self._connection.is_complete:
                self._connection.taken()
                await self._connection.more()
            self._connection.taken()

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes.

        Raises:
            UpstreamFailedError: it broke off.
        """
        connection = self._connection
        while True:
            if part := connection.taken():
                yield part
            elif connection.is_complete:
                return
            else:
                await connection.more()


class ConnectionPool:
    """Connections to one server; what is not in use is kept for a while."""

    def __init__(
        self,
        name: str,
        origin: Origin,
        ways: Ways | None = None,
        *,
        connect_seconds: float = CONNECT_SECONDS_MAX,
    ) -> None:
        """Take what messages call the server, where it is, and how names are resolved."""
        self._connect_seconds = connect_seconds
        self._name = name
        self._origin = origin
        self._ways = ways or Ways()
        self._context = ssl.create_default_context() if origin.is_tls else None
        self._kept: deque[tuple[_Connection, float]] = deque()
        self._open = self._opening = 0

    def close(self) -> None:
        """Close what is kept; what is in use is closed with its request."""
        while self._kept:
            self._kept.pop()[0].abort()

    def sent(self, head: bytes, body: bytes, *, deadline: float | None = None) -> "Exchange":
        """Return the exchange of a request; entering it sends the request.

        Its answer must be read inside of the block. Leaving that before the answer is complete
        closes the connection: to the server that is the cancellation. What is not answered by
        `deadline`, a time of the loop's, is given up.
        """
        return Exchange(self, head, body, deadline)

    async def ready(self) -> "_Connection":
        """Return a connection that nobody uses.

        Raises:
            UpstreamNotReachedError: none can be had.
        """
        now = asyncio.get_running_loop().time()
        while self._kept:
            connection, since = self._kept.pop()  # the youngest: the others may grow old
            if connection.is_quiet and now - since <= KEPT_SECONDS_MAX:
                return connection
            connection.abort()
        if self._open + self._opening >= CONNECTIONS_MAX:
            message = f"{self._name}: all {CONNECTIONS_MAX} connections are in use"
            raise UpstreamNotReachedError(message)
        self._opening += 1
        try:
            return await self._opened()
        finally:
            self._opening -= 1

    async def _opened(self) -> "_Connection":
        origin = self._origin
        try:
            with anyio.fail_after(self._connect_seconds):
                addresses = await self._ways.to(origin.host, origin.port)
                for address in addresses[:-1]:
                    with suppress(OSError), anyio.move_on_after(ADDRESS_SECONDS_MAX):
                        return await self._connected(address)
                return await self._connected(addresses[-1])
        except UpstreamNotReachedError as error:
            raise type(error)(f"{self._name}: {error}") from error
        except TimeoutError as error:
            message = f"cannot connect within {self._connect_seconds:g} s"
            raise UpstreamRefusedError(f"{self._name}: {message}") from error
        except OSError as error:  # a certificate's fault among them
            message = f"{self._name}: cannot connect: {error}"
            raise UpstreamRefusedError(message) from error

    async def _connected(self, address: str) -> "_Connection":
        """Return a connection to exactly this address: no name is looked up again."""
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(self._count),
            address,
            self._origin.port,
            ssl=self._context,
            server_hostname=self._origin.host if self._context is not None else None,
        )
        return connection

    def keep(self, connection: "_Connection") -> None:
        """Keep a connection for the next request if it is fit for one."""
        if not connection.can_be_kept:
            connection.abort()
            return
        connection.in_flight = False
        connection.read_on()
        connection.wait_no_more()
        self._kept.append((connection, asyncio.get_running_loop().time()))
        if len(self._kept) > KEPT_MAX:
            self._kept.popleft()[0].abort()

    def _count(self, change: int) -> None:
        self._open += change


class Exchange:
    """One request and its answer, on a connection of their own."""

    __slots__ = ("_body", "_connection", "_deadline", "_head", "_pool")

    def __init__(
        self, pool: ConnectionPool, head: bytes, body: bytes, deadline: float | None = None
    ) -> None:
        """Take what to send."""
        self._deadline = deadline
        self._pool = pool
        self._head = head
        self._body = body

    async def __aenter__(self) -> Response:
        """Send the request and return its answer, once its head is there.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: the connection broke off.
        """
        self._connection = await self._pool.ready()
        if self._deadline is not None:
            self._connection.wait_until(self._deadline)
        try:
            return await self._connection.answered(self._head, self._body)
        except BaseException:
            self._connection.abort()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Keep the connection, or close it."""
        if kind is None:
            self._pool.keep(self._connection)
        else:
            self._connection.abort()


class _Connection(asyncio.Protocol):
    """One connection, which carries one request at a time."""

    __slots__ = (
        "_deadline", "_failed", "_failed_as", "_has_headers", "_head_bytes", "_headers",
        "_is_framed", "_is_paused", "_on_open", "_parser", "_status", "_stays_open", "_timer",
        "_transport", "_unread", "_waiter", "in_flight", "is_complete", "unread_bytes",
    )  # fmt: skip

    def __init__(self, on_open: Callable[[int], None]) -> None:
        self._on_open = on_open  # told 1 when this is open, and -1 when it is no more
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self.in_flight = False
        self._unread: list[bytes] = []
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._begin()

    def _begin(self) -> None:
        self._failed: str | None = None
        self._failed_as: type[UpstreamLostError] = UpstreamLostError
        self._headers: dict[bytes, bytes] = {}
        self._status = 0
        self._head_bytes = 0
        self._has_headers = self._is_framed = self._is_paused = self._stays_open = False
        self.unread_bytes = 0
        self.is_complete = False

    @property
    def is_open(self) -> bool:
        """Tell whether a request can be sent."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._failed is None
        )

    @property
    def is_quiet(self) -> bool:
        """Tell whether a request can be sent, and the server has not hung up in the meantime.

        The loop may not have heard of that yet, and a request that follows such a connection is
        lost: whether it was served nobody could say.
        """
        if not self.is_open or self._transport is None:
            return False
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    @property
    def can_be_kept(self) -> bool:
        """Tell whether the next request can follow on this one."""
        return (
            self.is_open
            and self.is_complete
            and self._is_framed
            and not self._unread
            and self._stays_open
        )

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def wait_until(self, deadline: float) -> None:
        """Fail at `deadline` if the answer is not complete by then; a later word moves it."""
        self._deadline = deadline
        timer = self._timer
        if timer is None or timer.when() > deadline:
            # One that was set for sooner looks again then: most deadlines only move away.
            if timer is not None:
                timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(deadline, self._look)

    def wait_no_more(self) -> None:
        """Forget the deadline: nothing is waited for."""
        self._deadline = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        deadline = self._deadline
        if deadline is None:
            return
        loop = asyncio.get_running_loop()
        if deadline > loop.time():
            self._timer = loop.call_at(deadline, self._look)
            return
        self._failed_as = UpstreamLateError
        self._give_up("the answer was not complete in time")

    async def answered(self, head: bytes, body: bytes) -> Response:
        """Send a request; return its answer once the head is there."""
        assert self._transport is not None, "the pool hands out what is connected"
        self._begin()
        self.in_flight = True
        self._transport.write(head + body)
        while not (self._has_headers or self.is_complete):
            await self.more()
        return Response(self._status, self._headers, self)

    async def more(self) -> None:
        """Wait until something more has come, if it is only the end.

        Raises:
            UpstreamFailedError: the connection has failed, so nothing more will.
        """
        if self._failed is not None:
            raise self._failed_as(self._failed)
        self.read_on()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    @property
    def first(self) -> bytes:
        """Return what came first of what was not taken yet."""
        return self._unread[0] if self._unread else b""

    def read_on(self) -> None:
        """Take from the socket again, where too much of an answer was not taken yet."""
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def taken(self) -> bytes:
        """Return what came and was not taken yet."""
        unread, self._unread, self.unread_bytes = self._unread, [], 0
        return unread[0] if len(unread) == 1 else b"".join(unread)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._on_open(1)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._has_headers and not self._is_framed and exc is None:
            self.is_complete = True  # an answer of the kind that ends with its connection
        self._fail("the connection was closed" if exc is None else f"the connection broke: {exc}")
        self._transport = None
        self.wait_no_more()
        self._on_open(-1)

    def eof_received(self) -> bool:
        return False

    def data_received(self, data: bytes) -> None:
        if not self.in_flight:
            self._give_up("the server said something unasked")
            return
        if not self._has_headers:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._give_up(f"the answer is not HTTP: {error}")
            return
        if not self._has_headers and self._head_bytes > HEAD_BYTES_MAX:
            self._give_up("the answer's headers are without an end")
        if self.unread_bytes > UNREAD_BYTES_MAX and not self._is_paused and self._transport:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._is_framed = True
        self._headers[name] = value.strip(b" \t")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._has_headers = self._status not in _INTERIM

    def on_body(self, body: bytes) -> None:
        self._unread.append(body)
        self.unread_bytes += len(body)

    def on_message_complete(self) -> None:
        if not self._has_headers:  # an interim answer: the one that counts follows
            self._headers.clear()
            self._is_framed = False
            return
        if self.is_complete:
            self._give_up("the server answered once more")
        self.is_complete = True
        self._stays_open = self._parser.should_keep_alive()  # no longer told afterwards

    def _give_up(self, why: str) -> None:
        self._fail(why)
        self.abort()

    def _fail(self, why: str) -> None:
        self._failed = self._failed or why
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
