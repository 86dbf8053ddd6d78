"""A client transport that tells when the server's side of it has ended, and for whom it sends."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from mcp.shared.message import SessionMessage
from mcp_types import CLIENT_CAPABILITIES_META_KEY, JSONRPCRequest

from tool_gateway.upstreams.questions import cause_of_sending

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


class ReadStream(Protocol[Item_co]):
    """What the SDK reads a connection's messages from."""

    async def receive(self) -> Item_co:
        """Return the next item."""
        ...

    async def aclose(self) -> None:
        """Close the stream."""
        ...

    async def __anext__(self) -> Item_co: ...

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None: ...


Messages = SessionMessage | Exception


@asynccontextmanager
async def watched(
    transport: AbstractAsyncContextManager[tuple[ReadStream[Messages], Any]],
    on_closed: Callable[[], None],
) -> AsyncIterator[tuple[Any, Any]]:
    """Open `transport`; `on_closed` is called when its read side ends, for whatever cause.

    The SDK's client notices such an end only at its next request; a gateway wants to start
    the server again before that.
    """
    async with transport as (reading, writing):
        yield WatchedReadStream(reading, on_closed), DeclaringWriteStream(writing)


class WatchedReadStream(Generic[Item]):
    """A read stream that reports its end."""

    def __init__(self, inner: ReadStream[Item], on_closed: Callable[[], None]) -> None:
        """Wrap `inner`."""
        self._inner = inner
        self._on_closed = on_closed

    @property
    def last_context(self) -> Context | None:
        """Return the context that the last item was sent in, where the transport knows it."""
        found: Context | None = getattr(self._inner, "last_context", None)
        return found

    async def receive(self) -> Item:
        """Return the next item."""
        return await self._inner.receive()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> "WatchedReadStream[Item]":
        return self

    async def __anext__(self) -> Item:
        try:
            return await self._inner.__anext__()
        except BaseException:
            self._on_closed()
            raise

    async def __aenter__(self) -> "WatchedReadStream[Item]":
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)


class DeclaringWriteStream:
    """A write stream on which each request declares what its own client can be asked.

    The SDK declares the same of every request of a connection; one connection here serves
    many clients.
    """

    def __init__(self, inner: Any) -> None:
        """Wrap `inner`."""
        self._inner = inner

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        cause, message = cause_of_sending(), item.message
        if cause is not None and isinstance(message, JSONRPCRequest):
            meta = (message.params or {}).get("_meta", {})
            if CLIENT_CAPABILITIES_META_KEY in meta:
                meta[CLIENT_CAPABILITIES_META_KEY] = dict(cause.exchange.wishes.capabilities)
        await self._inner.send(item)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        ended: bool | None = await self._inner.__aexit__(kind, error, trace)
        return ended
