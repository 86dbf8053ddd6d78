"""Sessions: one run of an agent, known by a name that only this agent can give it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    exists,
    select,
    union,
    update,
)

from governor.amounts import Amounts
from governor.ids import PrincipalId, SessionId, TenantId
from governor.session import SessionState
from governor.target import CallKind
from memory_store.advisory import Duty, is_free
from memory_store.audit import Actor, note
from memory_store.bookkeeping import Bookkeeping
from memory_store.carves import close_below
from memory_store.errors import NotFoundError, SessionEndedError
from memory_store.freezing import below, put_off, state_of, take_up
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.rows import amounts_of
from memory_store.tables import calls, reservations, sessions
from memory_store.turns import About
from memory_store.writer import Writer

_ID_BYTES = 16
_IDS_KNOWN_MAX = 4_096
# How many sessions one transaction closes, so that nobody behind it waits for long.
CLOSED_AT_ONCE = 128


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
    frozen_at_ms: int | None = None
    frozen_by: str | None = None
    parent: SessionId | None = None
    carve: Amounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A session that was frozen or resumed, and the sessions, itself first, that this is about.

    `before` is how it stood until then.
    """

    before: SessionView
    session: SessionView
    affected: tuple[SessionId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A session that is closed, and all that were ever below it, itself first."""

    session: SessionView
    affected: tuple[SessionId, ...]


@lru_cache(maxsize=_IDS_KNOWN_MAX)
def session_id_for(agent: PrincipalId, name: str) -> SessionId:
    """Return the id of the session that `agent` calls `name`.

    The lengths go into the hash, so that no other split of the same text gives the same
    id: two agents can never mean the same session.
    """
    digest = hashlib.blake2b(digest_size=_ID_BYTES)
    for part in (agent, name):
        # Any text has an id; whether it can be stored is found out where it is.
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return SessionId(f"ses_{digest.hexdigest()}")


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

    async def states(self, session_ids: tuple[SessionId, ...]) -> dict[SessionId, SessionState]:
        """Return how those sessions stand that are open no more, or not for now."""

        def read(connection: Connection) -> dict[SessionId, SessionState]:
            known = select(sessions.c.session_id).where(sessions.c.session_id.in_(session_ids))
            found = [SessionId(one) for one in connection.scalars(known)]
            states = {one: state_of(connection, one) for one in found}
            return {one: state for one, state in states.items() if state is not SessionState.OPEN}

        return await self._reader.run(read)

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

    async def close_idle(self, *, prefix: str, before_ms: int, by: Actor, now_ms: int) -> int:
        """Close the sessions whose name begins with `prefix` and that rest since `before_ms`.

        One rests if neither it nor a sub-session was seen, and none of their calls ran, since.
        Returns how many were closed, some at a time, so that calls are admitted in between.
        """
        # Looked for beside the writer, because no index leads to them by name.
        query = (
            select(sessions.c.session_id)
            .where(sessions.c.name.startswith(prefix, autoescape=True), _is_idle(before_ms))
            .order_by(sessions.c.last_seen_at_ms)
            .limit(CLOSED_AT_ONCE)
        )
        total = 0
        while ids := await self._reader.run(lambda connection: connection.scalars(query).all()):
            closed = await self._writer.book(
                partial(_close_idle, ids=ids, before_ms=before_ms, by=by, now_ms=now_ms),
                about=About(sessions=tuple(map(SessionId, ids))),
            )
            if not closed:
                # All came back meanwhile, or another sidecar is at it; the next sweep looks again.
                break
            total += closed
        return total

    async def close(self, session_id: SessionId, *, by: Actor, now_ms: int) -> Closed:
        """Deny every further call of the session and all below it; say which those are.

        One that is closed stays as it is.

        Raises:
            NotFoundError: no call was ever seen of it.
        """
        return await self._writer.book(
            lambda book: _close(book, session_id, by=by, now_ms=now_ms),
            about=About(sessions=(session_id,)),
        )

    async def freeze(self, session_id: SessionId, *, by: Actor, now_ms: int) -> Paused:
        """Deny the calls of the session and all below it until `resume`; say which those are.

        Their live holds do not expire meanwhile. A session that is frozen stays as it is.

        Raises:
            NotFoundError: no call was ever seen of it.
            SessionEndedError: it is closed.
        """
        return await self._writer.book(
            lambda book: _freeze(book, session_id, by=by, now_ms=now_ms),
            about=About(sessions=(session_id,)),
        )

    async def resume(self, session_id: SessionId, *, by: Actor, now_ms: int) -> Paused:
        """Admit calls again, save those of what is frozen by itself or above; say whose.

        Holds get the time back that they were frozen for.

        Raises:
            NotFoundError: no call was ever seen of it.
            SessionEndedError: it is closed.
        """
        return await self._writer.book(
            lambda book: _resume(book, session_id, by=by, now_ms=now_ms),
            about=About(sessions=(session_id,)),
        )


def _freeze(book: Bookkeeping, session_id: SessionId, *, by: Actor, now_ms: int) -> Paused:
    book.flush()
    before = _session(book.connection, session_id)
    if before.closed_at_ms is not None:
        raise SessionEndedError
    affected = tuple(below(book.connection, session_id))
    if before.frozen_at_ms is not None:
        return Paused(before=before, session=before, affected=affected)
    put_off(book.connection, affected)
    columns = {"frozen_at_ms": now_ms, "frozen_by": by.name}
    after = _changed(book, before, "session.freeze", columns, by=by, now_ms=now_ms)
    return Paused(before=before, session=after, affected=affected)


def _resume(book: Bookkeeping, session_id: SessionId, *, by: Actor, now_ms: int) -> Paused:
    book.flush()
    before = after = _session(book.connection, session_id)
    if before.closed_at_ms is not None:
        raise SessionEndedError
    lower = below(book.connection, session_id)
    if before.frozen_at_ms is not None:
        take_up(book.connection, lower, frozen_for_ms=now_ms - before.frozen_at_ms)
        columns = {"frozen_at_ms": None, "frozen_by": None}
        after = _changed(book, before, "session.resume", columns, by=by, now_ms=now_ms)
    affected = tuple(
        one for one in lower if state_of(book.connection, one) is not SessionState.FROZEN
    )
    return Paused(before=before, session=after, affected=affected)


def _changed(
    book: Bookkeeping,
    before: SessionView,
    action: str,
    columns: Mapping[str, object],
    *,
    by: Actor,
    now_ms: int,
) -> SessionView:
    """Store `columns` of a session, with the audit row, and return how it stands then."""
    session_id = before.session_id
    book.connection.execute(
        update(sessions).where(sessions.c.session_id == session_id).values(dict(columns))
    )
    after = _session(book.connection, session_id)
    note(
        book.connection,
        by=by,
        at_ms=now_ms,
        action=action,
        target=session_id,
        before=_audited(before),
        after=_audited(after),
    )
    book.sessions.forget_one(session_id)
    book.turns.move(before.tenant)
    return after


def _audited(view: SessionView) -> dict[str, object]:
    return {"frozen_at_ms": view.frozen_at_ms, "frozen_by": view.frozen_by}


def _close(book: Bookkeeping, session_id: SessionId, *, by: Actor, now_ms: int) -> Closed:
    """Close the session and all below it; what sub-sessions did not use goes back."""
    book.flush()
    session = _session(book.connection, session_id)
    closed = tuple(close_below(book, session_id, now_ms=now_ms))
    for one in closed:
        _close_one(book.connection, one, by=by, now_ms=now_ms)
        book.sessions.forget_one(one)
    # Nobody resumes them any more: what a freeze had put off expires in its own time.
    take_up(book.connection, closed, frozen_for_ms=0)
    book.turns.move(session.tenant)
    return Closed(
        session=_session(book.connection, session_id),
        # Those that were closed before may have calls that run yet.
        affected=tuple(below(book.connection, session_id)),
    )


def _close_one(connection: Connection, session_id: SessionId, *, by: Actor, now_ms: int) -> None:
    before = _session(connection, session_id)
    if before.closed_at_ms is not None:
        return
    connection.execute(
        update(sessions)
        .where(sessions.c.session_id == session_id)
        .values(closed_at_ms=now_ms, closed_by=by.name)
    )
    note(
        connection,
        by=by,
        at_ms=now_ms,
        action="session.close",
        target=session_id,
        before=_noted(before),
        after=_noted(_session(connection, session_id)),
    )


def _noted(view: SessionView) -> dict[str, object]:
    """Return `view` as the audit keeps it."""
    # `asdict` would copy the amounts, which nobody can change and so nobody can copy.
    noted = {one.name: getattr(view, one.name) for one in fields(view)}
    return {**noted, "carve": None if view.carve is None else view.carve.as_dict()}


def _close_idle(
    book: Bookkeeping, *, ids: Sequence[str], before_ms: int, by: Actor, now_ms: int
) -> int:
    if not is_free(book.connection, Duty.IDLE_SESSIONS):
        return 0
    book.flush()
    # Asked again, because a session may have come back since it was looked for.
    still_idle = book.connection.scalars(
        select(sessions.c.session_id).where(sessions.c.session_id.in_(ids), _is_idle(before_ms))
    ).all()
    for session_id in still_idle:
        _close(book, SessionId(session_id), by=by, now_ms=now_ms)
    return len(still_idle)


def _is_idle(before_ms: int) -> ColumnElement[bool]:
    """Tell of a session whether it is open, and it and all below it at rest since `before_ms`."""
    return (
        sessions.c.closed_at_ms.is_(None)
        & _rests(sessions, before_ms)
        & sessions.c.session_id.not_in(_at_work(before_ms))
    )


def _rests(one: FromClause, before_ms: int) -> ColumnElement[bool]:
    """Tell whether a session was not seen, and none of its calls ended, since `before_ms`."""
    has_ended_since = exists().where(
        calls.c.session == one.c.session_id, calls.c.ended_at_ms >= before_ms
    )
    return (one.c.last_seen_at_ms < before_ms) & ~has_ended_since


def _at_work(before_ms: int) -> Select[tuple[str]]:
    """Return the sessions whose calls run, and those above a session that does not rest.

    Asked once for all that may be idle: it begins at the live holds and at the open
    sub-sessions, and goes up from there.
    """
    child, above = sessions.alias("child"), sessions.alias("above")
    with_live_calls = select(reservations.c.session.label("session_id")).where(
        reservations.c.ended_at_ms.is_(None),
        reservations.c.kind != CallKind.SUB_SESSION.value,
    )
    active_children = select(child.c.session_id).where(
        child.c.parent.is_not(None),
        child.c.closed_at_ms.is_(None),
        ~_rests(child, before_ms),
    )
    first = union(with_live_calls, active_children).subquery("first")
    at_work = select(first.c.session_id).cte("at_work", recursive=True)
    parents = select(above.c.parent).where(
        above.c.session_id == at_work.c.session_id, above.c.parent.is_not(None)
    )
    return select(at_work.union(parents).c.session_id)


def _session(connection: Connection, session_id: SessionId) -> SessionView:
    row = connection.execute(
        select(sessions).where(sessions.c.session_id == session_id)
    ).one_or_none()
    if row is None:
        message = f"there is no session {session_id}"
        raise NotFoundError(message)
    return _view(row)


def _view(row: Any) -> SessionView:
    columns = dict(row._mapping)  # noqa: SLF001 - public, despite its name
    del columns["carve_reservation"]
    carve = columns.pop("carve")
    return SessionView(carve=None if carve is None else amounts_of(carve), **columns)
