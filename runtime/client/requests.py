"""The requests of the memory, one function each; both clients send what these return."""

import base64
from collections.abc import Sequence

from runtime.client.exchange import BASE, Asked, path_of, without_nothing


def write(content: str | bytes, *, idempotency_key: str | None = None, **more: object) -> Asked:
    """Return the request that keeps an experience; bytes go as they are."""
    body: dict[str, object] = {"content": content}
    if isinstance(content, bytes):
        body = {"content": base64.b64encode(content).decode(), "encoding": "base64"}
    headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    return Asked(
        method="POST",
        path=f"{BASE}/experiences",
        body={**body, **without_nothing(**more)},
        headers=headers,
    )


def search(query: str, **more: object) -> Asked:
    """Return the request that searches."""
    return Asked(
        method="POST", path=f"{BASE}/search", body={"query": query, **without_nothing(**more)}
    )


def context(focus: str | None, max_tokens: int | None) -> Asked:
    """Return the request for where the session stands."""
    body = without_nothing(focus=focus, max_tokens=max_tokens)
    return Asked(method="POST", path=f"{BASE}/context", body=body)


def around(index: str, **more: object) -> Asked:
    """Return the request for what stands around an experience."""
    return Asked(method="POST", path=path_of(index, "around"), body=without_nothing(**more))


def content(index: str, *, offset: int = 0, max_bytes: int | None = None) -> Asked:
    """Return the request for the bytes of an experience, all from `offset` on without a bound."""
    query: dict[str, str | int] = {"offset": offset}
    if max_bytes is not None:
        query["max_bytes"] = max_bytes
    return Asked(method="GET", path=path_of(index, "content"), query=query)


def feedback(indices: Sequence[str], *, used: float, helpful: float | None) -> Asked:
    """Return the request that says whether experiences helped."""
    body = {"indices": list(indices), "used": used, **without_nothing(helpful=helpful)}
    return Asked(method="POST", path=f"{BASE}/feedback", body=body)


def forget(index: str) -> Asked:
    """Return the request that erases an experience."""
    return Asked(method="DELETE", path=path_of(index))


def listed() -> Asked:
    """Return the request for the agent's own experiences."""
    return Asked(method="GET", path=f"{BASE}/experiences")
