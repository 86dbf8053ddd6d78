"""The requests of the memory, one function each; both clients have a method of each."""

import base64
from collections.abc import Sequence
from typing import TypedDict, Unpack
from urllib.parse import quote

from runtime.client.answers import (
    Around,
    Content,
    Found,
    Listed,
    NamespaceOpen,
    Workspace,
    Written,
)
from runtime.client.exchange import Asked, Listing, answer, content_of, nothing, without_nothing

_BASE = "/memory/v1"


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


def write(
    content: str | bytes, *, idempotency_key: str | None = None, **options: Unpack[WriteOptions]
) -> Asked[Written]:
    """Return what became of an experience that is to be kept, byte for byte."""
    body: dict[str, object] = {"content": content}
    if isinstance(content, bytes):
        body = {"content": base64.b64encode(content).decode(), "encoding": "base64"}
    headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    return Asked(
        method="POST",
        path=f"{_BASE}/experiences",
        body={**body, **without_nothing(**options)},
        headers=headers,
        reads=answer(Written),
    )


def search(query: str, **options: Unpack[SearchOptions]) -> Asked[Found]:
    """Return what is found, the best first, as much as `max_tokens` have room for."""
    body = {"query": query, **without_nothing(**options)}
    return Asked(method="POST", path=f"{_BASE}/search", body=body, reads=answer(Found))


def context(focus: str | None = None, *, max_tokens: int | None = None) -> Asked[Workspace]:
    """Return where the session stands."""
    body = without_nothing(focus=focus, max_tokens=max_tokens)
    return Asked(method="POST", path=f"{_BASE}/context", body=body, reads=answer(Workspace))


def around(
    index: str, *, before: int = 2, after: int = 2, max_tokens: int | None = None
) -> Asked[Around]:
    """Return an experience with its neighbours in the session and what it was made of."""
    body = without_nothing(before=before, after=after, max_tokens=max_tokens)
    return Asked(method="POST", path=_path(index, "around"), body=body, reads=answer(Around))


def content(index: str, *, offset: int = 0, max_bytes: int | None = None) -> Asked[Content]:
    """Return the bytes of an experience, which proved intact."""
    query: dict[str, str | int] = {"offset": offset}
    if max_bytes is not None:
        query["max_bytes"] = max_bytes
    return Asked(method="GET", path=_path(index, "content"), query=query, reads=content_of)


def feedback(
    indices: Sequence[str], *, used: float = 1.0, helpful: float | None = None
) -> Asked[None]:
    """Say whether experiences were used, and whether they helped, from 0 to 1."""
    body = {"indices": list(indices), "used": used, **without_nothing(helpful=helpful)}
    return Asked(method="POST", path=f"{_BASE}/feedback", body=body, reads=nothing)


def forget(index: str) -> Asked[None]:
    """Erase for good what the agent wrote itself."""
    return Asked(method="DELETE", path=_path(index), reads=nothing)


def listed() -> Listing[Listed]:
    """Yield the agent's own experiences, the latest first."""
    return Listing(path=f"{_BASE}/experiences", kind=Listed)


def namespaces() -> Listing[NamespaceOpen]:
    """Yield the namespaces that the agent may use, with its rights and the room that is left."""
    return Listing(path=f"{_BASE}/namespaces", kind=NamespaceOpen)


def _path(index: str, *more: str) -> str:
    """Return the path of an experience; an index may hold anything and stays in its place."""
    return "/".join((_BASE, "experiences", quote(index, safe=""), *more))
