"""An agent's sessions, their budgets and what became of them, by both kinds of client."""

from collections.abc import Mapping

from runtime.client import session_requests as requests
from runtime.client.exchange import answer_of
from runtime.client.link import AsyncLink, Link
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

_NO_SESSION = "name a session: this client was made without one"


class Sessions:
    """An agent's sessions, for programs that wait; without a name, the client's own.

    Every method raises `RefusedError` where there is no such session, which has its first call
    still before it, and `NotReachedError` where nobody answers.
    """

    def __init__(self, link: Link) -> None:
        """Take the sidecar, the token and the session."""
        self._link = link

    def read(self, name: str | None = None) -> Session:
        """Return a session with how every budget stands that its calls are charged to."""
        return answer_of(self._link.sent(requests.read(_named(name, self._link))), Session)

    def spawn(self, name: str, *, limits: Mapping[str, int], parent: str | None = None) -> Spawned:
        """Return a new sub-session, whose allowance is carved out of its parent's budgets.

        Raises:
            DeniedError: the parent has not as much.
        """
        asked = requests.spawn(name, parent=_named(parent, self._link), limits=limits)
        return answer_of(self._link.sent(asked), Spawned)

    def close(self, name: str | None = None) -> Closed:
        """Return the session after its end, with what goes back to its parent."""
        return answer_of(self._link.sent(requests.close(_named(name, self._link))), Closed)

    def say_task(
        self,
        task: str,
        *,
        name: str | None = None,
        task_class: str | None = None,
        agent: str | None = None,
    ) -> TaskSaid:
        """Say in the user's own words what a session is for, once and before its first call."""
        named = _named(name, self._link)
        asked = requests.task(named, task, task_class=task_class, agent=agent)
        return answer_of(self._link.sent(asked), TaskSaid)

    def say_outcome(self, *, success: bool, name: str | None = None) -> SessionOutcome:
        """Say whether a session did what it was for; tiers and turns are learned from it."""
        asked = requests.outcome(_named(name, self._link), success=success)
        return answer_of(self._link.sent(asked), SessionOutcome)

    def say_worth(self, call_id: str, score: float, *, source: Source = "user") -> CallOutcome:
        """Say what one answer was worth, from 0 to 1, and who says so."""
        asked = requests.worth(call_id, score=score, source=source)
        return answer_of(self._link.sent(asked), CallOutcome)

    def budgets(self, name: str | None = None) -> tuple[Balance, ...]:
        """Return how every budget stands that a session's calls are charged to."""
        return self.read(name).balances


class AsyncSessions:
    """An agent's sessions, for programs with a loop; all else is as of `Sessions`."""

    def __init__(self, link: AsyncLink) -> None:
        """Take the sidecar, the token and the session."""
        self._link = link

    async def read(self, name: str | None = None) -> Session:
        """Return a session with how every budget stands that its calls are charged to."""
        asked = requests.read(_named(name, self._link))
        return answer_of(await self._link.sent(asked), Session)

    async def spawn(
        self, name: str, *, limits: Mapping[str, int], parent: str | None = None
    ) -> Spawned:
        """Return a new sub-session, whose allowance is carved out of its parent's budgets.

        Raises:
            DeniedError: the parent has not as much.
        """
        asked = requests.spawn(name, parent=_named(parent, self._link), limits=limits)
        return answer_of(await self._link.sent(asked), Spawned)

    async def close(self, name: str | None = None) -> Closed:
        """Return the session after its end, with what goes back to its parent."""
        asked = requests.close(_named(name, self._link))
        return answer_of(await self._link.sent(asked), Closed)

    async def say_task(
        self,
        task: str,
        *,
        name: str | None = None,
        task_class: str | None = None,
        agent: str | None = None,
    ) -> TaskSaid:
        """Say in the user's own words what a session is for, once and before its first call."""
        named = _named(name, self._link)
        asked = requests.task(named, task, task_class=task_class, agent=agent)
        return answer_of(await self._link.sent(asked), TaskSaid)

    async def say_outcome(self, *, success: bool, name: str | None = None) -> SessionOutcome:
        """Say whether a session did what it was for; tiers and turns are learned from it."""
        asked = requests.outcome(_named(name, self._link), success=success)
        return answer_of(await self._link.sent(asked), SessionOutcome)

    async def say_worth(
        self, call_id: str, score: float, *, source: Source = "user"
    ) -> CallOutcome:
        """Say what one answer was worth, from 0 to 1, and who says so."""
        asked = requests.worth(call_id, score=score, source=source)
        return answer_of(await self._link.sent(asked), CallOutcome)

    async def budgets(self, name: str | None = None) -> tuple[Balance, ...]:
        """Return how every budget stands that a session's calls are charged to."""
        return (await self.read(name)).balances


def _named(name: str | None, link: Link | AsyncLink) -> str:
    named = name or link.session
    if named is None:
        raise ValueError(_NO_SESSION)
    return named
