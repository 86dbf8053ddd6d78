"""The clients of the memory: one that waits, one for a loop; they say the same."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TypedDict, Unpack

import httpx

from runtime.client import requests
from runtime.client.answers import Around, Content, Found, Listed, Workspace, Written
from runtime.client.exchange import answer_of, content_of, document_of
from runtime.client.link import SECONDS_MAX, AsyncClosing, AsyncLink, Closing, Link


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


class Memory:
    """An agent's memory, for programs that wait.

    Every method raises `DeniedError` where a budget or rule does not allow it, `RefusedError`
    where the request is wrong or there is no such index, `NotReachedError` where nobody answers.
    """

    def __init__(self, link: Link) -> None:
        """Take the sidecar, the token and the session."""
        self._link = link

    def write(self, content: str | bytes, **options: Unpack[WriteOptions]) -> Written:
        """Return what became of an experience that is to be kept, byte for byte."""
        return answer_of(self._link.sent(requests.write(content, **options)), Written)

    def search(self, query: str, **options: Unpack[SearchOptions]) -> Found:
        """Return what is found, the best first, as much as `max_tokens` have room for."""
        return answer_of(self._link.sent(requests.search(query, **options)), Found)

    def context(self, focus: str | None = None, *, max_tokens: int | None = None) -> Workspace:
        """Return where the session stands."""
        return answer_of(self._link.sent(requests.context(focus, max_tokens)), Workspace)

    def around(
        self, index: str, *, before: int = 2, after: int = 2, max_tokens: int | None = None
    ) -> Around:
        """Return an experience with its neighbours in the session and what it was made of."""
        asked = requests.around(index, before=before, after=after, max_tokens=max_tokens)
        return answer_of(self._link.sent(asked), Around)

    def content(self, index: str, *, offset: int = 0, max_bytes: int | None = None) -> Content:
        """Return the bytes of an experience, which proved intact."""
        return content_of(
            self._link.sent(requests.content(index, offset=offset, max_bytes=max_bytes))
        )

    def feedback(
        self, indices: Sequence[str], *, used: float = 1.0, helpful: float | None = None
    ) -> None:
        """Say whether experiences were used, and whether they helped, from 0 to 1."""
        document_of(self._link.sent(requests.feedback(indices, used=used, helpful=helpful)))

    def forget(self, index: str) -> None:
        """Erase for good what the agent wrote itself."""
        document_of(self._link.sent(requests.forget(index)))

    def listed(self) -> Iterator[Listed]:
        """Yield the agent's own experiences, the latest first."""
        yield from map(Listed.model_validate, self._link.items(requests.listed()))


class MemoryClient(Closing, Memory):
    """An agent's memory by itself, for programs that wait."""

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
        super().__init__(
            Link(base_url, token=token, session=session, timeout_s=timeout_s, transport=transport)
        )


class AsyncMemory:
    """An agent's memory, for programs with a loop; the errors are those of `Memory`."""

    def __init__(self, link: AsyncLink) -> None:
        """Take the sidecar, the token and the session."""
        self._link = link

    async def write(self, content: str | bytes, **options: Unpack[WriteOptions]) -> Written:
        """Return what became of an experience that is to be kept, byte for byte."""
        return answer_of(await self._link.sent(requests.write(content, **options)), Written)

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> Found:
        """Return what is found, the best first, as much as `max_tokens` have room for."""
        return answer_of(await self._link.sent(requests.search(query, **options)), Found)

    async def context(
        self, focus: str | None = None, *, max_tokens: int | None = None
    ) -> Workspace:
        """Return where the session stands."""
        return answer_of(await self._link.sent(requests.context(focus, max_tokens)), Workspace)

    async def around(
        self, index: str, *, before: int = 2, after: int = 2, max_tokens: int | None = None
    ) -> Around:
        """Return an experience with its neighbours in the session and what it was made of."""
        asked = requests.around(index, before=before, after=after, max_tokens=max_tokens)
        return answer_of(await self._link.sent(asked), Around)

    async def content(
        self, index: str, *, offset: int = 0, max_bytes: int | None = None
    ) -> Content:
        """Return the bytes of an experience, which proved intact."""
        asked = requests.content(index, offset=offset, max_bytes=max_bytes)
        return content_of(await self._link.sent(asked))

    async def feedback(
        self, indices: Sequence[str], *, used: float = 1.0, helpful: float | None = None
    ) -> None:
        """Say whether experiences were used, and whether they helped, from 0 to 1."""
        document_of(await self._link.sent(requests.feedback(indices, used=used, helpful=helpful)))

    async def forget(self, index: str) -> None:
        """Erase for good what the agent wrote itself."""
        document_of(await self._link.sent(requests.forget(index)))

    async def listed(self) -> AsyncIterator[Listed]:
        """Yield the agent's own experiences, the latest first."""
        async for item in self._link.items(requests.listed()):
            yield Listed.model_validate(item)


class AsyncMemoryClient(AsyncClosing, AsyncMemory):
    """An agent's memory by itself, for programs with a loop."""

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
        super().__init__(
            AsyncLink(
                base_url, token=token, session=session, timeout_s=timeout_s, transport=transport
            )
        )
