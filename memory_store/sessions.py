"""Sessions: one run of an agent, known by a name that only this agent can give it."""

import hashlib
import sqlite3
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.dialects.sqlite import insert

from governor.admission import AdmissionRequest
from governor.ids import PrincipalId, SessionId, TenantId
from memory_store.audit import Actor, note
from memory_store.errors import NotFoundError, SessionOwnerError
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.statement import Statement
from memory_store.tables import sessions
from memory_store.writer import Writer

_ID_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session as it stands; `closed_by` names who ended it."""

    session_id: SessionId
    tenant: TenantId
    agent: PrincipalId
    name: str
    opened_at_ms: int
    last_seen_at_ms: int
    closed_at_ms: int | None
    closed_by: str | None


_new = insert(sessions)
_SEEN = Statement(
    _new.values(
        {
            name: bindparam(name)
            for name in ("session_id", "tenant", "agent", "name", "opened_at_ms", "last_seen_at_ms")
        }
    )
    .on_conflict_do_update(
        index_elements=["session_id"],
        # A call that waited in the queue must not make the session look older.
        set_={
            "last_seen_at_ms": func.max(sessions.c.last_seen_at_ms, _new.excluded.last_seen_at_ms)
        },
    )
    .returning(sessions.c.tenant, sessions.c.agent, sessions.c.closed_at_ms)
)


def session_id_for(agent: PrincipalId, name: str) -> SessionId:
    """Return the id of the session that `agent` calls `name`.

    The lengths go into the hash, so that no other split of the same text gives the same
    id: two agents can never mean the same session.
    """
    digest = hashlib.blake2b(digest_size=_ID_BYTES)
    for part in (agent, name):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return SessionId(f"ses_{digest.hexdigest()}")


def is_open_now(driver: sqlite3.Connection, request: AdmissionRequest) -> bool:
    """Note that the session of `request` was seen, and tell whether it is open.

    Raises:
        SessionOwnerError: the session belongs to another agent.
    """
    tenant, agent, closed_at_ms = _SEEN.row(
        driver,
        {
            "session_id": request.chain.session,
            "tenant": request.chain.tenant,
            "agent": request.chain.agent,
            "name": request.session_name,
            "opened_at_ms": request.now_ms,
            "last_seen_at_ms": request.now_ms,
        },
    )
    if (tenant, agent) != (request.chain.tenant, request.chain.agent):
        raise SessionOwnerError
    return closed_at_ms is None


class SessionBook:
    """Lists sessions and ends them."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def get(self, session_id: SessionId) -> SessionView:
        """Return the session.

        Raises:
            NotFoundError: no call was ever seen of it.
        """
        return await self._reader.run(lambda connection: _session(connection, session_id))

    async def page(
        self,
        *,
        tenant: TenantId | None = None,
        agent: PrincipalId | None = None,
        is_open: bool | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[SessionView]:
        """Return sessions, the one opened last first."""
        limit = clamped(limit)
        query = (
            select(sessions)
            .order_by(sessions.c.opened_at_ms.desc(), sessions.c.session_id.desc())
            .limit(limit + 1)
        )
        if tenant is not None:
            query = query.where(sessions.c.tenant == tenant)
        if agent is not None:
            query = query.where(sessions.c.agent == agent)
        if is_open is not None:
            query = query.where(sessions.c.closed_at_ms.is_(None) == is_open)
        if cursor is not None:
            opened_at_ms, session_id = key_of(cursor, kinds=(int, str))
            query = query.where(
                (sessions.c.opened_at_ms < opened_at_ms)
                | ((sessions.c.opened_at_ms == opened_at_ms) & (sessions.c.session_id < session_id))
            )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return page_of(
            rows, limit=limit, item=_view, key=lambda row: (row.opened_at_ms, row.session_id)
        )

    async def idle(self, *, before_ms: int, limit: int = 200) -> tuple[SessionView, ...]:
        """Return open sessions not seen since `before_ms`, the longest idle first."""
        query = (
            select(sessions)
            .where(sessions.c.closed_at_ms.is_(None), sessions.c.last_seen_at_ms < before_ms)
            .order_by(sessions.c.last_seen_at_ms)
            .limit(clamped(limit))
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(_view(row) for row in rows)

    async def close(self, session_id: SessionId, *, by: Actor, now_ms: int) -> SessionView:
        """Deny every further call of the session; one that is closed stays as it is.

        Raises:
            NotFoundError: no call was ever seen of it.
        """

        def close(connection: Connection) -> SessionView:
            before = _session(connection, session_id)
            if before.closed_at_ms is not None:
                return before
            connection.execute(
                update(sessions)
                .where(sessions.c.session_id == session_id)
                .values(closed_at_ms=now_ms, closed_by=by.name)
            )
            after = _session(connection, session_id)
            note(
                connection,
                by=by,
                at_ms=now_ms,
                action="session.close",
                target=session_id,
                before=asdict(before),
                after=asdict(after),
            )
            return after

        return await self._writer.run(close)


def _session(connection: Connection, session_id: SessionId) -> SessionView:
    row = connection.execute(
        select(sessions).where(sessions.c.session_id == session_id)
    ).one_or_none()
    if row is None:
        message = f"there is no session {session_id}"
        raise NotFoundError(message)
    return _view(row)


def _view(row: Any) -> SessionView:
    return SessionView(**row._mapping)  # noqa: SLF001 - public, despite its name
