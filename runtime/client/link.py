"""One connection to a sidecar, for programs that wait and for those with a loop."""

from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from runtime.client.errors import NotReachedError
from runtime.client.exchange import Asked, document_of

SECONDS_MAX = 60.0
PAGE = 200


class Link:
    """A sidecar as programs that wait ask it, in the name of one token and session."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str,
        session: str | None = None,
        timeout_s: float = SECONDS_MAX,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Take the listener, a token, and the session that is charged."""
        self.session = session
        self._http = httpx.Client(
            base_url=base_url,
            headers=_headers(token, session),
            timeout=timeout_s,
            transport=transport,
            trust_env=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def sent(self, asked: Asked) -> httpx.Response:
        """Return the answer to a request.

        Raises:
            NotReachedError: nobody answers.
        """
        try:
            return self._http.send(_request(self._http, asked))
        except httpx.TransportError as error:
            raise _unreached(self._http) from error

    def items(self, asked: Asked) -> Iterator[Any]:
        """Yield what a listing has, page after page; the errors are those of `document_of`."""
        cursor: str | None = None
        while True:
            page = document_of(self.sent(asked.page(limit=PAGE, cursor=cursor)))
            yield from page["items"]
            cursor = page["next"]
            if cursor is None:
                return


class AsyncLink:
    """A sidecar as programs with a loop ask it, in the name of one token and session."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str,
        session: str | None = None,
        timeout_s: float = SECONDS_MAX,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Take the listener, a token, and the session that is charged."""
        self.session = session
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers=_headers(token, session),
            timeout=timeout_s,
            transport=transport,
            trust_env=False,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def sent(self, asked: Asked) -> httpx.Response:
        """Return the answer to a request.

        Raises:
            NotReachedError: nobody answers.
        """
        try:
            return await self._http.send(_request(self._http, asked))
        except httpx.TransportError as error:
            raise _unreached(self._http) from error

    async def items(self, asked: Asked) -> AsyncIterator[Any]:
        """Yield what a listing has, page after page; the errors are those of `document_of`."""
        cursor: str | None = None
        while True:
            page = document_of(await self.sent(asked.page(limit=PAGE, cursor=cursor)))
            for item in page["items"]:
                yield item
            cursor = page["next"]
            if cursor is None:
                return


class Closing:
    """What has a link of its own and closes it at the end of a `with` block."""

    _link: Link

    def __enter__(self) -> Self:
        """Return the client; its connections are closed afterwards."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._link.close()


class AsyncClosing:
    """What has a link of its own and closes it at the end of an `async with` block."""

    _link: AsyncLink

    async def __aenter__(self) -> Self:
        """Return the client; its connections are closed afterwards."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._link.aclose()


def _headers(token: str, session: str | None) -> Mapping[str, str]:
    named = {} if session is None else {"Flyball-Session": session}
    return {"Authorization": f"Bearer {token}", **named}


def _request(http: httpx.Client | httpx.AsyncClient, asked: Asked) -> httpx.Request:
    return http.build_request(
        asked.method, asked.path, json=asked.body, params=asked.query, headers=asked.headers
    )


def _unreached(http: httpx.Client | httpx.AsyncClient) -> NotReachedError:
    return NotReachedError(f"no sidecar answers at {http.base_url}: start one with `flyball up`")
