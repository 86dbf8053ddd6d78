"""Connections to model providers, one client for each."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import Self

import anyio
import httpx
from pydantic import SecretStr

from runtime.model_gateway.errors import (
    ProviderFailedError,
    ProviderNotReachedError,
    ProviderTimedOutError,
)

ANSWER_BYTES_MAX = 32 * 1024 * 1024
CONNECTIONS_MAX = 256
CONNECT_SECONDS_MAX = 10.0
# Keys for show ("ollama") are short and may be words of an answer; real ones are longer.
_KEY_CHARS_HIDDEN_MIN = 16
_RETRY_AFTER_CHARS_MAX = 6

_NOTHING_SENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSpec:
    """An OpenAI-compatible server; `base_url` ends before /chat/completions."""

    name: str
    base_url: str
    api_key: SecretStr | None
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAnswer:
    """What a provider answered; `retry_after` in whole seconds, where it named them."""

    status: int
    content: bytes
    retry_after: str | None = None


class ProviderPool:
    """Sends chat requests to the providers; an async context manager."""

    def __init__(
        self,
        specs: Iterable[ProviderSpec],
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Open nothing yet; `transport` replaces the network in tests."""
        self._specs = {spec.name: spec for spec in specs}
        self._transport = transport
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._open = AsyncExitStack()

    def __contains__(self, provider: str) -> bool:
        """Tell whether `provider` is configured."""
        return provider in self._specs

    async def __aenter__(self) -> Self:
        """Open a client for each provider."""
        for name, spec in self._specs.items():
            client = _client(spec, self._transport)
            self._clients[name] = await self._open.enter_async_context(client)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close every connection."""
        self._clients.clear()
        await self._open.aclose()

    def timeout_ms(self, provider: str) -> int:
        """Return how long a call to `provider` may take."""
        return self._specs[provider].timeout_ms

    async def post_chat(self, provider: str, content: bytes) -> ProviderAnswer:
        """Return the provider's answer to a chat request, whatever its status.

        Raises:
            ProviderNotReachedError: provably nothing was sent.
            ProviderTimedOutError: the answer was not complete in time.
            ProviderFailedError: the request was sent and no whole answer came back.
        """
        spec = self._specs[provider]
        try:
            # httpx bounds each read; only this bounds an answer that trickles.
            with anyio.fail_after(spec.timeout_ms / 1000):
                answer = await _post(self._clients[provider], content)
        except _NOTHING_SENT as error:
            raise ProviderNotReachedError from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ProviderTimedOutError from error
        except httpx.HTTPError as error:
            raise ProviderFailedError from error
        return _without_key(answer, spec.api_key)


def _client(spec: ProviderSpec, transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",  # what is counted must be what is read
    }
    if spec.api_key is not None:
        headers["Authorization"] = f"Bearer {spec.api_key.get_secret_value()}"
    return httpx.AsyncClient(
        base_url=spec.base_url,
        headers=headers,
        # A cookie set in one caller's answer must not ride on another caller's request.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        follow_redirects=False,
        trust_env=False,
        timeout=httpx.Timeout(
            spec.timeout_ms / 1000, connect=CONNECT_SECONDS_MAX, pool=CONNECT_SECONDS_MAX
        ),
        limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
        transport=transport,
    )


async def _post(client: httpx.AsyncClient, content: bytes) -> ProviderAnswer:
    received = bytearray()
    async with client.stream("POST", "/chat/completions", content=content) as response:
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise ProviderFailedError("The model provider's answer is compressed, unasked.")
        async for chunk in response.aiter_bytes():
            received += chunk
            if len(received) > ANSWER_BYTES_MAX:
                raise ProviderFailedError(
                    f"The model provider's answer is larger than {ANSWER_BYTES_MAX} bytes."
                )
    return ProviderAnswer(
        status=response.status_code,
        content=bytes(received),
        retry_after=_seconds(response.headers.get("retry-after")),
    )


def _seconds(value: str | None) -> str | None:
    """Return a Retry-After that is a number of seconds; dates and nonsense are left out."""
    if value is None or len(value) > _RETRY_AFTER_CHARS_MAX:
        return None
    return value if value.isascii() and value.isdigit() else None


def _without_key(answer: ProviderAnswer, api_key: SecretStr | None) -> ProviderAnswer:
    """Return the answer without our key: some servers quote the credentials they refuse."""
    key = "" if api_key is None else api_key.get_secret_value()
    if len(key) < _KEY_CHARS_HIDDEN_MIN or key.encode() not in answer.content:
        return answer
    return ProviderAnswer(
        status=answer.status,
        content=answer.content.replace(key.encode(), b"[redacted]"),
        retry_after=answer.retry_after,
    )
