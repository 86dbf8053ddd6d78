"""The sessions that a transaction touches: who they belong to and where they stand."""

import json
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from governor.account import Carve
from governor.admission import AdmissionRequest
from governor.amounts import Unit
from governor.errors import InvalidScopeError
from governor.ids import PrincipalId, ReservationId, SessionId, TenantId
from governor.scope import DEPTH_MAX, ScopeChain
from governor.session import SessionState
from memory_store import line_text
from memory_store.errors import SessionOwnerError
from memory_store.freezing import own_state, state_below
from memory_store.live_accounts import LiveAccounts
from memory_store.statement import Driver, Statement, Value
from memory_store.tables import reservations, sessions

# About 500 bytes each: what many short sessions leave behind stays within a few megabytes.
_KEPT_MAX = 8_192
# Idle sessions are closed after minutes; a second is close enough and saves most writes.
SEEN_EVERY_MS = 1_000

_BY_ID = Statement(
    select(
        sessions.c.tenant,
        sessions.c.agent,
        sessions.c.last_seen_at_ms,
        sessions.c.closed_by,
        sessions.c.frozen_at_ms,
        sessions.c.parent,
        sessions.c.carve,
        sessions.c.carve_reservation,
        reservations.c.lines,
    )
    .outerjoin(reservations, reservations.c.reservation_id == sessions.c.carve_reservation)
    .where(sessions.c.session_id == bindparam("session_id"))
)
_OPENED = (
    "session_id", "tenant", "agent", "name", "opened_at_ms", "last_seen_at_ms", "parent", "carve",
    "carve_reservation",
)  # fmt: skip
_INSERT = Statement(insert(sessions).values({name: bindparam(name) for name in _OPENED}))
_SEEN = Statement(
    update(sessions)
    .where(sessions.c.session_id == bindparam("of_session_id"))
    .values(last_seen_at_ms=bindparam("seen_at_ms"))
)
_CHILDREN = Statement(
    select(sessions.c.session_id).where(
        sessions.c.parent == bindparam("parent"), sessions.c.closed_at_ms.is_(None)
    )
)


@dataclass(slots=True, kw_only=True)
class LiveSession:
    """One session; `ancestors` and `carves` are those of the chain above and at it."""

    session_id: SessionId
    tenant: TenantId
    agent: PrincipalId
    last_seen_at_ms: int
    state: SessionState = SessionState.OPEN
    ancestors: tuple[SessionId, ...] = ()
    carves: tuple[Carve, ...] = ()
    carve_reservations: tuple[ReservationId, ...] = ()

    @property
    def chain(self) -> ScopeChain:
        """Return the chain that calls of this session are charged to."""
        return ScopeChain(
            tenant=self.tenant,
            agent=self.agent,
            session=self.session_id,
            ancestors=self.ancestors,
        )


@dataclass(slots=True)
class LiveSessions:
    """Sessions by id, and what has to be stored of them."""

    _kept: dict[SessionId, LiveSession] = field(default_factory=dict)
    _opened: list[dict[str, Value]] = field(default_factory=list)
    _seen: dict[SessionId, LiveSession] = field(default_factory=dict)

    def forget(self) -> None:
        """Read everything again."""
        self._kept.clear()
        self._opened.clear()
        self._seen.clear()

    def forget_one(self, session_id: SessionId) -> None:
        """Read this session again, and those below it."""
        below = [
            kept.session_id for kept in self._kept.values() if session_id in kept.chain.sessions
        ]
        for one in below:
            del self._kept[one]

    def trim(self) -> None:
        """Forget everything where too much is kept; to be called between transactions."""
        if len(self._kept) > _KEPT_MAX:
            self._kept.clear()

    def seen(
        self, driver: Driver, accounts: LiveAccounts, request: AdmissionRequest
    ) -> LiveSession:
        """Return the session of `request`, opened if it is new, and note that it was seen.

        Raises:
            SessionOwnerError: the session belongs to another agent.
        """
        chain, now_ms = request.chain, request.now_ms
        live = self.get(driver, accounts, chain.session)
        if live is None:
            live = LiveSession(
                session_id=chain.session,
                tenant=chain.tenant,
                agent=chain.agent,
                last_seen_at_ms=now_ms,
            )
            self.open(live, name=request.session_name, now_ms=now_ms)
            return live
        if live.tenant != chain.tenant or live.agent != chain.agent:
            raise SessionOwnerError
        if now_ms - live.last_seen_at_ms >= SEEN_EVERY_MS:
            live.last_seen_at_ms = now_ms
            self._seen[chain.session] = live
        return live

    def open(
        self,
        live: LiveSession,
        *,
        name: str,
        now_ms: int,
        parent: SessionId | None = None,
        carve: str | None = None,
    ) -> None:
        """Keep a new session."""
        self._kept[live.session_id] = live
        self._opened.append(
            {
                "session_id": live.session_id,
                "tenant": live.tenant,
                "agent": live.agent,
                "name": name,
                "opened_at_ms": now_ms,
                "last_seen_at_ms": now_ms,
                "parent": parent,
                "carve": carve,
                "carve_reservation": live.carve_reservations[-1] if carve is not None else None,
            }
        )

    def get(
        self, driver: Driver, accounts: LiveAccounts, session_id: SessionId
    ) -> LiveSession | None:
        """Return the session of that id."""
        kept = self._kept.get(session_id)
        if kept is None:
            kept = self._read(driver, accounts, session_id)
            if kept is not None:
                self._kept[session_id] = kept
        return kept

    def children(self, driver: Driver, session_id: SessionId) -> list[SessionId]:
        """Return the open sessions that were carved out of this one; stored ones only."""
        return [SessionId(child) for (child,) in _CHILDREN.rows(driver, {"parent": session_id})]

    def flush(self, driver: Driver) -> None:
        """Store what changed."""
        if self._opened:
            _INSERT.run_many(driver, self._opened)
            self._opened.clear()
        if self._seen:
            _SEEN.run_many(
                driver,
                [
                    {"of_session_id": live.session_id, "seen_at_ms": live.last_seen_at_ms}
                    for live in self._seen.values()
                ],
            )
            self._seen.clear()

    def _read(
        self,
        driver: Driver,
        accounts: LiveAccounts,
        session_id: SessionId,
        depth: int = 0,
    ) -> LiveSession | None:
        row = _BY_ID.row(driver, {"session_id": session_id})
        if row is None:
            return None
        tenant, agent, seen, closed, frozen, parent, carve, reservation, lines = row
        live = LiveSession(
            session_id=session_id,
            tenant=TenantId(tenant),
            agent=PrincipalId(agent),
            last_seen_at_ms=seen,
            state=own_state(agent=agent, closed_by=closed, frozen_at_ms=frozen),
        )
        if parent is None:
            return live
        if depth > DEPTH_MAX:
            message = f"parent: the session {session_id} stands below itself or too deep"
            raise InvalidScopeError(message)
        above = self._read(driver, accounts, SessionId(parent), depth + 1)
        assert above is not None, "a sub-session has a parent"
        held_on = {accounts.numbered(driver, line.account).key for line in line_text.read(lines)}
        _put_below(live, above, _carve(session_id, carve, frozenset(held_on)), reservation)
        return live


def _put_below(live: LiveSession, above: LiveSession, carve: Carve, reservation: str) -> None:
    live.ancestors = above.chain.sessions
    live.carves = (*above.carves, carve)
    live.carve_reservations = (*above.carve_reservations, ReservationId(reservation))
    live.state = state_below(above.state, live.state)


def _carve(session_id: SessionId, text: str, held_on: frozenset[Any]) -> Carve:
    return Carve(
        session=session_id,
        limits={Unit(unit): limit for unit, limit in json.loads(text).items()},
        held_on=held_on,
    )
