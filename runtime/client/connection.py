"""One connection to a sidecar, for programs that wait and for those with a loop."""

from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Self

import httpx

from runtime.client.errors import NotReachedError
from runtime.client.exchange import AnswerT, Asked, Listing, SaidT

SECONDS_MAX = 60.0


class Connection:
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

    def answer(self, asked: Asked[SaidT]) -> SaidT:
        """Return what is read in the answer to a request; errors are those of what reads it.

        Raises:
            NotReachedError: nobody answers.
        """
        try:
            response = self._http.send(_request(self._http, asked))
        except httpx.TransportError as error:
            raise _unreached(self._http) from error
        return asked.reads(response)

    def items(self, listing: Listing[AnswerT]) -> Iterator[AnswerT]:
        """Yield what a listing has, page after page; errors are those of `answer`."""
        page = self.answer(listing.page(None))
        while True:
            yield from page.items
            if page.next is None:
                return
            page = self.answer(listing.page(page.next))


class AsyncConnection:
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

    async def answer(self, asked: Asked[SaidT]) -> SaidT:
        """Return what is read in the answer to a request; errors are those of what reads it.

        Raises:
            NotReachedError: nobody answers.
        """
        try:
            response = await self._http.send(_request(self._http, asked))
        except httpx.TransportError as error:
            raise _unreached(self._http) from error
        return asked.reads(response)

    async def items(self, listing: Listing[AnswerT]) -> AsyncIterator[AnswerT]:
        """Yield what a listing has, page after page; errors are those of `answer`."""
        page = await self.answer(listing.page(None))
        while True:
            for item in page.items:
                yield item
            if page.next is None:
                return
            page = await self.answer(listing.page(page.next))


class Closing:
    """What has a connection of its own and closes it at the end of a `with` block."""

    _connection: Connection

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
        self._connection.close()


class AsyncClosing:
    """What has a connection of its own and closes it at the end of an `async with` block."""

    _connection: AsyncConnection

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
        await self._connection.aclose()


def _headers(token: str, session: str | None) -> Mapping[str, str]:
    named = {} if session is None else {"Flyball-Session": session}
    return {"Authorization": f"Bearer {token}", **named}


def _request(http: httpx.Client | httpx.AsyncClient, asked: Asked[SaidT]) -> httpx.Request:
    return http.build_request(
        asked.method, asked.path, json=asked.body, params=asked.query, headers=asked.headers
    )


def _unreached(http: httpx.Client | httpx.AsyncClient) -> NotReachedError:
    return NotReachedError(f"no sidecar answers at {http.base_url}: start one with `flyball up`")
