"""Sub-sessions of an agent: carved out, shown, closed."""

from collections.abc import Mapping
from dataclasses import dataclass

from governor.account import carve_budget
from governor.amounts import Amounts, Unit
from governor.denial import Denied
from governor.ids import PrincipalId, ReservationId, SessionId, TenantId
from governor.scope import ScopeChain
from memory_store.accounts import BalanceView
from memory_store.audit import Actor
from memory_store.carves import SpawnRequest
from memory_store.errors import NotFoundError
from memory_store.sessions import SessionView, session_id_for
from memory_store.store import Store
from tool_gateway.ports import Clock

SESSIONS_ABOVE_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A session that is closed, and what of its allowance its parents have back."""

    session: SessionView
    given_back: Mapping[Unit, int]


class SubSessions:
    """What an agent may do with its own sessions; another agent's are not there.

    For a key that is good for one session alone, `within` is its id: nothing is there but that
    session and what was carved out of it.
    """

    def __init__(self, store: Store, *, clock: Clock) -> None:
        """Take the store."""
        self._store = store
        self._clock = clock

    async def spawn(
        self,
        *,
        tenant: TenantId,
        agent: PrincipalId,
        parent: str,
        name: str,
        limits: Amounts,
        within: SessionId | None = None,
    ) -> ScopeChain | Denied:
        """Carve a sub-session out of `parent`, a name or an id, or say why not.

        Raises:
            AlreadyExistsError: there is, or was, such a session.
            InvalidScopeError: the session would be its own ancestor, or the chain too deep.
            InvalidBudgetError: nothing is carved out.
            NotFoundError: the parent is not within what the key is good for.
        """
        try:
            known = (await self.find(agent, parent, within=within)).session_id
        except NotFoundError:
            known = session_id_for(agent, parent)
            if within not in (None, known):
                raise
        return await self._store.ledger.spawn(
            SpawnRequest(
                session_id=session_id_for(agent, name),
                reservation_id=ReservationId(self._clock.fresh("res")),
                tenant=tenant,
                agent=agent,
                parent=known,
                parent_name=parent,
                name=name,
                limits=limits,
                now_ms=self._clock.now_ms(),
            )
        )

    async def close(
        self, agent: PrincipalId, named: str, *, within: SessionId | None = None
    ) -> Given:
        """Close a session and all below it; one that is closed stays as it is.

        Raises:
            NotFoundError: the agent has no such session.
        """
        before = await self.find(agent, named, within=within)
        now_ms = self._clock.now_ms()
        closed = await self._store.sessions.close(
            before.session_id, by=Actor(name=agent), now_ms=now_ms
        )
        session = closed.session
        given: dict[Unit, int] = {}
        if before.closed_at_ms is None and before.carve is not None:
            own = carve_budget(before.session_id)
            given = {
                view.unit: max(0, view.remaining)
                for view in await self.balances(session)
                if view.budget_id == own
            }
        return Given(session=session, given_back=given)

    async def find(
        self, agent: PrincipalId, named: str, *, within: SessionId | None = None
    ) -> SessionView:
        """Return the agent's session of that name or id.

        Raises:
            NotFoundError: the agent has no such session.
        """
        for session_id in (session_id_for(agent, named), SessionId(named)):
            try:
                session = await self._store.sessions.get(session_id)
            except NotFoundError:
                continue
            if session.agent == agent and (within is None or within in await self.chain(session)):
                return session
        raise NotFoundError(f"you have no session {named}")

    async def is_beneath(self, session_id: SessionId, *, above: SessionId) -> bool:
        """Tell whether a session was carved out of `above`, or out of what was."""
        try:
            session = await self._store.sessions.get(session_id)
        except NotFoundError:
            return False
        return above in (await self.chain(session))[:-1]

    async def chain(self, session: SessionView) -> tuple[SessionId, ...]:
        """Return the sessions from the first one down to `session`."""
        chain, parent = [session.session_id], session.parent
        while parent is not None and len(chain) < SESSIONS_ABOVE_MAX:
            chain.insert(0, parent)
            parent = (await self._store.sessions.get(parent)).parent
        return tuple(chain)

    async def balances(self, session: SessionView) -> tuple[BalanceView, ...]:
        """Return how everything stands that calls of `session` are charged to."""
        return await self._store.ledger.balances(
            tenant=session.tenant,
            agent=session.agent,
            session=session.session_id,
            now_ms=self._clock.now_ms(),
        )
