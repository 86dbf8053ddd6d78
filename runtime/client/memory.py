"""The clients of the memory: one that waits, one for a loop; they say the same."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self, TypedDict, Unpack

import httpx

from runtime.client import requests
from runtime.client.answers import Around, Content, Found, Listed, Workspace, Written
from runtime.client.errors import NotReachedError
from runtime.client.exchange import Asked, answer_of, content_of, document_of

SECONDS_MAX = 60.0
_PAGE = 200


class WriteOptions(TypedDict, total=False):
    """What can be said of an experience as it is written; see `memory_write`.

    Times are epoch milliseconds, `outcome` is from 0 (failed) to 1 (succeeded).
    """

    media_type: str
    kind: str
    summary: str
    namespace: str
    actor: str
    tags: Sequence[str]
    task_class: str
    valid_from_ms: int
    valid_until_ms: int
    outcome: float
    cost_microusd: int
    supersedes: str
    derived_from: Sequence[str]
    expires_in_s: int
    idempotency_key: str


class SearchOptions(TypedDict, total=False):
    """What narrows a search; see `memory_search`.

    No `lanes` are all but "web", what anybody may have written.
    """

    limit: int
    max_tokens: int
    tier: str
    namespaces: Sequence[str]
    lanes: Sequence[str]
    kinds: Sequence[str]
    actors: Sequence[str]
    tags: Sequence[str]
    task_class: str
    this_session: bool
    true_at_ms: int
    learned_from_ms: int
    learned_before_ms: int


class MemoryClient:
    """An agent's memory, for programs that wait.

    Every method raises `DeniedError` where a budget or rule does not allow it, `RefusedError`
    where the request is wrong or there is no such index, `NotReachedError` where nobody answers.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str,
        session: str | None = None,
        timeout_s: float = SECONDS_MAX,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Take the agents' listener, an agent's token, and the session that is charged."""
        self._http = httpx.Client(
            base_url=base_url,
            headers=_headers(token, session),
            timeout=timeout_s,
            transport=transport,
            trust_env=False,
        )

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
        self._http.close()

    def write(self, content: str | bytes, **options: Unpack[WriteOptions]) -> Written:
        """Return what became of an experience that is to be kept, byte for byte."""
        return answer_of(self._sent(requests.write(content, **options)), Written)

    def search(self, query: str, **options: Unpack[SearchOptions]) -> Found:
        """Return what is found, the best first, as much as `max_tokens` have room for."""
        return answer_of(self._sent(requests.search(query, **options)), Found)

    def context(self, focus: str | None = None, *, max_tokens: int | None = None) -> Workspace:
        """Return where the session stands."""
        return answer_of(self._sent(requests.context(focus, max_tokens)), Workspace)

    def around(
        self, index: str, *, before: int = 2, after: int = 2, max_tokens: int | None = None
    ) -> Around:
        """Return an experience with its neighbours in the session and what it was made of."""
        asked = requests.around(index, before=before, after=after, max_tokens=max_tokens)
        return answer_of(self._sent(asked), Around)

    def content(self, index: str, *, offset: int = 0, max_bytes: int | None = None) -> Content:
        """Return the bytes of an experience, which proved intact."""
        return content_of(self._sent(requests.content(index, offset=offset, max_bytes=max_bytes)))

    def feedback(
        self, indices: Sequence[str], *, used: float = 1.0, helpful: float | None = None
    ) -> None:
        """Say whether experiences were used, and whether they helped, from 0 to 1."""
        document_of(self._sent(requests.feedback(indices, used=used, helpful=helpful)))

    def forget(self, index: str) -> None:
        """Erase for good what the agent wrote itself."""
        document_of(self._sent(requests.forget(index)))

    def listed(self) -> Iterator[Listed]:
        """Yield the agent's own experiences, the latest first."""
        cursor: str | None = None
        while True:
            page = document_of(self._sent(requests.listed(limit=_PAGE, cursor=cursor)))
            yield from map(Listed.model_validate, page["items"])
            cursor = page["next"]
            if cursor is None:
                return

    def _sent(self, asked: Asked) -> httpx.Response:
        try:
            return self._http.send(_request(self._http, asked))
        except httpx.TransportError as error:
            raise _unreached(self._http) from error


class AsyncMemoryClient:
    """An agent's memory, for programs with a loop; the errors are those of `MemoryClient`."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str,
        session: str | None = None,
        timeout_s: float = SECONDS_MAX,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Take the agents' listener, an agent's token, and the session that is charged."""
        self._http = httpx.AsyncClient(
            base_url=base_url,
            headers=_headers(token, session),
            timeout=timeout_s,
            transport=transport,
            trust_env=False,
        )

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
        await self._http.aclose()

    async def write(self, content: str | bytes, **options: Unpack[WriteOptions]) -> Written:
        """Return what became of an experience that is to be kept, byte for byte."""
        return answer_of(await self._sent(requests.write(content, **options)), Written)

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> Found:
        """Return what is found, the best first, as much as `max_tokens` have room for."""
        return answer_of(await self._sent(requests.search(query, **options)), Found)

    async def context(
        self, focus: str | None = None, *, max_tokens: int | None = None
    ) -> Workspace:
        """Return where the session stands."""
        return answer_of(await self._sent(requests.context(focus, max_tokens)), Workspace)

    async def around(
        self, index: str, *, before: int = 2, after: int = 2, max_tokens: int | None = None
    ) -> Around:
        """Return an experience with its neighbours in the session and what it was made of."""
        asked = requests.around(index, before=before, after=after, max_tokens=max_tokens)
        return answer_of(await self._sent(asked), Around)

    async def content(
        self, index: str, *, offset: int = 0, max_bytes: int | None = None
    ) -> Content:
        """Return the bytes of an experience, which proved intact."""
        asked = requests.content(index, offset=offset, max_bytes=max_bytes)
        return content_of(await self._sent(asked))

    async def feedback(
        self, indices: Sequence[str], *, used: float = 1.0, helpful: float | None = None
    ) -> None:
        """Say whether experiences were used, and whether they helped, from 0 to 1."""
        document_of(await self._sent(requests.feedback(indices, used=used, helpful=helpful)))

    async def forget(self, index: str) -> None:
        """Erase for good what the agent wrote itself."""
        document_of(await self._sent(requests.forget(index)))

    async def listed(self) -> AsyncIterator[Listed]:
        """Yield the agent's own experiences, the latest first."""
        cursor: str | None = None
        while True:
            page = document_of(await self._sent(requests.listed(limit=_PAGE, cursor=cursor)))
            for item in page["items"]:
                yield Listed.model_validate(item)
            cursor = page["next"]
            if cursor is None:
                return

    async def _sent(self, asked: Asked) -> httpx.Response:
        try:
            return await self._http.send(_request(self._http, asked))
        except httpx.TransportError as error:
            raise _unreached(self._http) from error


def _headers(token: str, session: str | None) -> Mapping[str, str]:
    named = {} if session is None else {"Flyball-Session": session}
    return {"Authorization": f"Bearer {token}", **named}


def _request(http: httpx.Client | httpx.AsyncClient, asked: Asked) -> httpx.Request:
    return http.build_request(
        asked.method, asked.path, json=asked.body, params=asked.query, headers=asked.headers
    )


def _unreached(http: httpx.Client | httpx.AsyncClient) -> NotReachedError:
    return NotReachedError(f"no sidecar answers at {http.base_url}: start one with `flyball up`")
