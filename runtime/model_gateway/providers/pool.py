"""Requests to model providers, on kept connections, one pool for each provider."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from governor.tiers import ModelTier
from runtime.model_gateway.errors import (
    ProviderFailedError,
    ProviderNotReachedError,
    ProviderTimedOutError,
    UnfitProviderError,
)
from runtime.model_gateway.model_request import Payload
from runtime.model_gateway.providers.spec import ProviderSpec, Timeouts
from runtime.model_gateway.wires.wire import Wire
from tool_gateway.egress.ways import Ways
from tool_gateway.errors import (
    UpstreamFailedError,
    UpstreamLateError,
    UpstreamLostError,
    UpstreamNotReachedError,
)
from tool_gateway.spans import context_to_send
from tool_gateway.upstreams.http1 import ConnectionPool, Exchange, Response
from tool_gateway.upstreams.origin import Origin, can_be_sent, origin_of

ANSWER_BYTES_MAX = 32 * 1024 * 1024
# Keys for show ("ollama") are short and may be words of an answer; real ones are longer.
_KEY_CHARS_HIDDEN_MIN = 16
_HIDDEN = b"[redacted]"
_EVENTS = b"text/event-stream"
_NOTHING: Mapping[str, str] = {}
_UNSAID = (b"", b"text/plain")
_BEGINS_JSON = (b"", b"{", b"[")


class Received:
    """A provider's answer, once its head is there."""

    __slots__ = ("_keys", "_response", "status")

    def __init__(self, response: Response, keys: Sequence[bytes]) -> None:
        """Take the answer, and the keys that are hidden wherever one is quoted."""
        self._response = response
        self._keys = keys
        self.status = response.status

    async def is_stream(self) -> bool:
        """Tell whether the body is one of events; some servers send those as plain text.

        Raises:
            UpstreamFailedError: it broke off before its first byte.
        """
        media_type = self._response.media_type
        if media_type not in _UNSAID:
            return media_type == _EVENTS
        return (await self._response.begins_with()).lstrip()[:1] not in _BEGINS_JSON

    def headers(self) -> dict[str, str]:
        """Return the headers by their names in lower case."""
        return {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in self._response.headers.items()
        }

    async def whole(self) -> bytes:
        """Return the whole body.

        Raises:
            UpstreamLostError: it broke off.
            ProviderFailedError: it is larger than `ANSWER_BYTES_MAX`.
        """
        try:
            content = await self._response.read(ANSWER_BYTES_MAX)
        except UpstreamLostError:
            raise
        except UpstreamFailedError as error:
            message = f"The model provider's answer is larger than {ANSWER_BYTES_MAX} bytes."
            raise ProviderFailedError(message) from error
        return self.without_key(content)

    def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, and nothing else is changed in it."""
        return self._response.parts()

    def wait_until(self, deadline: float) -> None:
        """Give the answer up that is not complete by `deadline`, a time of the loop's."""
        self._response.wait_until(deadline)

    async def drain(self) -> None:
        """Wait a moment for the end of a body whose rest nobody needs."""
        await self._response.drain()

    def without_key(self, content: bytes) -> bytes:
        """Return a text without our key: some servers quote the credentials they refuse."""
        for key in self._keys:
            if key in content:
                content = content.replace(key, _HIDDEN)
        return content


class Asked:
    """One request to a provider: entered, it is sent, and its answer is read inside."""

    __slots__ = ("_exchange", "_keys")

    def __init__(self, exchange: Exchange, keys: Sequence[bytes]) -> None:
        """Take what is to be sent."""
        self._exchange = exchange
        self._keys = keys

    async def __aenter__(self) -> Received:
        """Return the answer once its head is there.

        Raises:
            ProviderNotReachedError: provably nothing was sent.
            ProviderTimedOutError: no answer came in time.
            ProviderFailedError: the request was sent and no answer came that can be read.
        """
        try:
            response = await self._exchange.__aenter__()
        except UpstreamNotReachedError as error:
            raise ProviderNotReachedError from error
        except UpstreamLateError as error:
            raise ProviderTimedOutError from error
        except UpstreamFailedError as error:
            raise ProviderFailedError from error
        if response.headers.get(b"content-encoding", b"identity").lower() != b"identity":
            unasked = ProviderFailedError("The model provider's answer is compressed, unasked.")
            await self._exchange.__aexit__(type(unasked), unasked, None)
            raise unasked
        return Received(response, self._keys)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Keep the connection for the next request, or close it.

        Raises:
            ProviderTimedOutError: the answer was not complete in time.
            ProviderFailedError: the answer broke off.
        """
        await self._exchange.__aexit__(kind, error, trace)
        if isinstance(error, UpstreamLateError):
            raise ProviderTimedOutError from error
        if isinstance(error, UpstreamFailedError):
            raise ProviderFailedError from error


class _Provider:
    """One provider: its connections, and the head that its requests share."""

    def __init__(self, spec: ProviderSpec, origin: Origin, ways: Ways | None) -> None:
        self.timeouts = spec.timeouts
        self.keys = spec.keys
        # Any of them: a server may quote another than the one that it was sent.
        self.hidden = tuple(
            key.encode() for key in self.keys if key and len(key) >= _KEY_CHARS_HIDDEN_MIN
        )
        self.connections = ConnectionPool(
            f"provider {spec.name}",
            origin,
            ways,
            connect_seconds=spec.timeouts.connect_ms / 1000,
        )
        path, mark, query = origin.path.partition("?")
        self._path, self._query = path.rstrip("/"), mark + query
        self._lines = (
            f"host: {origin.host_header}\r\n"
            "accept-encoding: identity\r\n"  # what is counted must be what is read
            "content-type: application/json\r\n"
        )

    def head(self, wire: Wire, payload: Payload, headers: Mapping[str, str]) -> bytes:
        """Return everything of a request that comes before its body."""
        accept = "text/event-stream" if payload.request.is_streamed else "application/json"
        own = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return (
            f"POST {self._path}{wire.path}{self._query} HTTP/1.1\r\n"
            f"{self._lines}accept: {accept}\r\n{own}"
            f"content-length: {len(payload.content)}\r\n\r\n"
        ).encode("ascii")


class ProviderPool:
    """Sends requests to the providers; an async context manager."""

    def __init__(self, specs: Iterable[ProviderSpec], *, ways: Ways | None = None) -> None:
        """Open nothing yet; `ways` is how names are resolved.

        Raises:
            UnfitProviderError: a provider's address or key cannot be used.
        """
        self._providers = {spec.name: _provider(spec, ways) for spec in specs}

    def __contains__(self, provider: str) -> bool:
        """Tell whether `provider` is configured."""
        return provider in self._providers

    async def __aenter__(self) -> Self:
        """Connections are opened as they are needed."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection that is kept."""
        for provider in self._providers.values():
            provider.connections.close()

    def timeouts(self, tier: ModelTier) -> Timeouts:
        """Return how long the parts of a call on `tier` may take."""
        return self._providers[tier.provider].timeouts.within(tier.times)

    def asked(
        self,
        provider: str,
        wire: Wire,
        payload: Payload,
        *,
        key: int = 0,
        deadline: float | None = None,
    ) -> Asked:
        """Return the request that sends `payload` to a provider of this wire.

        `key` is the position of the key that it is sent with. What is not there by `deadline`,
        a time of the loop's, is given up.
        """
        known = self._providers[provider]
        headers = wire.headers(known.keys[key], payload.request)
        if traced := context_to_send(_NOTHING):
            headers = {**headers, **traced}
        head = known.head(wire, payload, headers)
        return Asked(known.connections.sent(head, payload.content, deadline=deadline), known.hidden)


def _provider(spec: ProviderSpec, ways: Ways | None) -> _Provider:
    origin = origin_of(spec.base_url)
    if origin is None:
        message = (
            f"provider {spec.name}: base_url {spec.base_url!r} is no plain http:// or https:// "
            "address; it ends before the path of an endpoint, as in https://api.openai.com/v1"
        )
        raise UnfitProviderError(message)
    for position, key in enumerate(spec.keys, start=1):
        if key is not None and not can_be_sent({"authorization": key}):
            message = f"provider {spec.name}: key {position} holds what no HTTP header can carry"
            raise UnfitProviderError(message)
    return _Provider(spec, origin, ways)
