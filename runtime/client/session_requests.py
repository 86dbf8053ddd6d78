"""The requests about sessions and outcomes, one function each; both clients send these."""

from collections.abc import Mapping
from urllib.parse import quote

from runtime.client.exchange import Asked, without_nothing

_BASE = "/sessions/v1"
_OUTCOMES = "/v1/outcomes"


def read(name: str) -> Asked:
    """Return the request for a session and its balances."""
    return Asked(method="GET", path=_path(name))


def spawn(name: str, *, parent: str, limits: Mapping[str, int]) -> Asked:
    """Return the request that carves a sub-session out."""
    body = {"parent": parent, "name": name, "limits": dict(limits)}
    return Asked(method="POST", path=_BASE, body=body)


def close(name: str) -> Asked:
    """Return the request that closes a session."""
    return Asked(method="DELETE", path=_path(name))


def task(name: str, words: str, *, task_class: str | None, agent: str | None) -> Asked:
    """Return the request that says what a session is for."""
    body = {"task": words, **without_nothing(task_class=task_class, agent=agent)}
    return Asked(method="POST", path=f"{_path(name)}/task", body=body)


def outcome(name: str, *, success: bool) -> Asked:
    """Return the request that says how a session went."""
    return Asked(method="POST", path=f"{_path(name)}/outcome", body={"success": success})


def worth(call_id: str, *, score: float, source: str) -> Asked:
    """Return the request that says what one answer was worth."""
    body = {"call_id": call_id, "score": score, "source": source}
    return Asked(method="POST", path=_OUTCOMES, body=body)


def _path(name: str) -> str:
    return f"{_BASE}/{quote(name, safe='')}"
