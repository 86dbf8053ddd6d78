"""The requests about sessions and outcomes, one function each; both clients have a method of each.

Those that begin with `own`, the client's own session, ask for that where no name is given.
"""

from collections.abc import Mapping
from urllib.parse import quote

import httpx

from runtime.client.exchange import Asked, answer, without_nothing
from runtime.client.session_answers import (
    Balance,
    CallOutcome,
    Closed,
    Session,
    SessionOutcome,
    Source,
    Spawned,
    TaskSaid,
)

_BASE = "/sessions/v1"
_OUTCOMES = "/v1/outcomes"
_NO_SESSION = "name a session: this client was made without one"


def read(own: str | None, name: str | None = None) -> Asked[Session]:
    """Return a session with how every budget stands that its calls are charged to."""
    return Asked(method="GET", path=_path(name or own), reads=answer(Session))


def budgets(own: str | None, name: str | None = None) -> Asked[tuple[Balance, ...]]:
    """Return how every budget stands that a session's calls are charged to."""
    session = answer(Session)

    def balances(response: httpx.Response) -> tuple[Balance, ...]:
        return session(response).balances

    return Asked(method="GET", path=_path(name or own), reads=balances)


def spawn(
    own: str | None, name: str, *, limits: Mapping[str, int], parent: str | None = None
) -> Asked[Spawned]:
    """Return a new sub-session, whose allowance is carved out of its parent's budgets.

    Raises:
        DeniedError: the parent has not as much.
    """
    body = {"parent": _named(parent or own), "name": name, "limits": dict(limits)}
    return Asked(method="POST", path=_BASE, body=body, reads=answer(Spawned))


def close(own: str | None, name: str | None = None) -> Asked[Closed]:
    """Return the session after its end, with what goes back to its parent."""
    return Asked(method="DELETE", path=_path(name or own), reads=answer(Closed))


def say_task(
    own: str | None,
    task: str,
    *,
    name: str | None = None,
    task_class: str | None = None,
    agent: str | None = None,
) -> Asked[TaskSaid]:
    """Say in the user's own words what a session is for, once and before its first call."""
    path = f"{_path(name or own)}/task"
    body = {"task": task, **without_nothing(task_class=task_class, agent=agent)}
    return Asked(method="POST", path=path, body=body, reads=answer(TaskSaid))


def say_outcome(
    own: str | None, *, success: bool, name: str | None = None
) -> Asked[SessionOutcome]:
    """Say whether a session did what it was for; tiers and turns are learned from it."""
    path, body = f"{_path(name or own)}/outcome", {"success": success}
    return Asked(method="POST", path=path, body=body, reads=answer(SessionOutcome))


def say_worth(call_id: str, score: float, *, source: Source = "user") -> Asked[CallOutcome]:
    """Say what one answer was worth, from 0 to 1, and who says so."""
    body = {"call_id": call_id, "score": score, "source": source}
    return Asked(method="POST", path=_OUTCOMES, body=body, reads=answer(CallOutcome))


def _path(name: str | None) -> str:
    return f"{_BASE}/{quote(_named(name), safe='')}"


def _named(name: str | None) -> str:
    if not name:
        raise ValueError(_NO_SESSION)
    return name
