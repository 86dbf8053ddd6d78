"""The requests of administrators, one function each; both clients send what these return."""

from collections.abc import Mapping
from urllib.parse import quote

from runtime.client.exchange import Asked, without_nothing

_BASE = "/admin/v1"


def listed(kind: str, **filters: str | bool | None) -> Asked:
    """Return the request for a listing; what is None does not narrow it."""
    query = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in filters.items()
        if value is not None
    }
    return Asked(method="GET", path=f"{_BASE}/{kind}", query=query)


def read(kind: str, name: str) -> Asked:
    """Return the request for one thing."""
    return Asked(method="GET", path=_path(kind, name))


def make(kind: str, body: Mapping[str, object]) -> Asked:
    """Return the request that makes one."""
    return Asked(method="POST", path=f"{_BASE}/{kind}", body=body)


def change(kind: str, name: str, body: Mapping[str, object], *, version: int | None) -> Asked:
    """Return the request that changes one, if it still has the version."""
    return Asked(
        method="PUT", path=_path(kind, name), body={**body, **without_nothing(version=version)}
    )


def retire(kind: str, name: str) -> Asked:
    """Return the request that ends one."""
    return Asked(method="DELETE", path=_path(kind, name))


def act(kind: str, name: str, verb: str, body: Mapping[str, object] | None = None) -> Asked:
    """Return the request that does something to one."""
    return Asked(method="POST", path=f"{_path(kind, name)}/{verb}", body=body)


def _path(kind: str, name: str) -> str:
    return f"{_BASE}/{kind}/{quote(name, safe='')}"
