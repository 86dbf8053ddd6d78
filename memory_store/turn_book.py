"""The turns of sessions: what they began with, what they were given, how they ended."""

from sqlalchemy import Connection, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from governor.ids import PrincipalId, SessionId, TaskClass, TenantId
from governor.scope import ScopeChain
from governor.turn_control import FinishedSession
from governor.turn_policy import DEFAULT_CLASS, TurnMode
from memory_store.audit import Actor, note
from memory_store.errors import NotFoundError
from memory_store.reader import Reader
from memory_store.tables import sessions
from memory_store.turn_rows import SessionPast, TurnsView, history_of, past_of, view_of
from memory_store.turn_tables import session_turns, turn_extensions
from memory_store.writer import Writer


class TurnBook:
    """Reads and writes what turn control keeps of sessions."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def begin(
        self,
        chain: ScopeChain,
        *,
        task_class: TaskClass,
        mode: TurnMode,
        base_turns: int | None,
        now_ms: int,
    ) -> None:
        """Keep what a session begins with; the class that it has already stays."""
        values = {"mode": mode.value, "base_turns": base_turns}

        def work(connection: Connection) -> None:
            _ensure(connection, chain, task_class=task_class, now_ms=now_ms)
            is_this = session_turns.c.session_id == chain.session
            connection.execute(update(session_turns).where(is_this).values(values))

        await self._writer.run(work)

    async def view(self, session_id: SessionId) -> TurnsView:
        """Return how the session stands; one that nobody began was never limited."""
        return await self._reader.run(lambda connection: view_of(connection, session_id))

    async def past(self, session_id: SessionId) -> SessionPast:
        """Return what is known of the session."""
        return await self._reader.run(lambda connection: past_of(connection, session_id))

    async def history(
        self, *, tenant: TenantId, task_class: TaskClass
    ) -> tuple[FinishedSession, ...]:
        """Return the latest sessions of a class that are over and took a turn at least."""
        query = history_of(tenant, task_class)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(
            FinishedSession(
                turns=row.turns,
                cost_microusd=int(row.cost_microusd),
                is_solved=row.is_solved,
                was_cut=row.was_cut,
            )
            for row in rows
        )

    async def extend(
        self, session_id: SessionId, *, turns: int, reason: str, by: Actor, now_ms: int
    ) -> TurnsView:
        """Give the session more turns and return how it stands then.

        Raises:
            NotFoundError: no call was ever seen of it.
        """
        return await self._writer.run(
            lambda connection: _extend(
                connection, session_id, turns=turns, reason=reason, by=by, now_ms=now_ms
            )
        )

    async def mark_cut(self, session_id: SessionId) -> None:
        """Note that the session was denied a turn, so that nobody takes it for a whole one."""
        query = (
            update(session_turns)
            .where(session_turns.c.session_id == session_id)
            .values(was_cut=True)
        )
        await self._writer.run(lambda connection: connection.execute(query).close())

    async def set_outcome(
        self, session_id: SessionId, *, is_solved: bool, by: Actor, now_ms: int
    ) -> TurnsView:
        """Keep how the session went; the last word stands, and each is in the audit log.

        Raises:
            NotFoundError: no call was ever seen of it.
        """
        return await self._writer.run(
            lambda connection: _set_outcome(
                connection, session_id, is_solved=is_solved, by=by, now_ms=now_ms
            )
        )


def _ensure(
    connection: Connection, chain: ScopeChain, *, task_class: TaskClass, now_ms: int
) -> None:
    """Make the session's row if it is not there.

    A session's first calls may come by several replicas at once: who is second finds it made.
    """
    connection.execute(
        upsert(session_turns).on_conflict_do_nothing(index_elements=["session_id"]),
        {
            "session_id": chain.session,
            "tenant": chain.tenant,
            "agent": chain.agent,
            "task_class": task_class,
            "mode": TurnMode.UNLIMITED.value,
            "base_turns": None,
            "was_cut": False,
            "begun_at_ms": now_ms,
        },
    )


def _ensure_known(connection: Connection, session_id: SessionId, *, now_ms: int) -> None:
    """Make the row of a session that was seen before turn control was.

    Raises:
        NotFoundError: no call was ever seen of it.
    """
    query = select(sessions.c.tenant, sessions.c.agent).where(sessions.c.session_id == session_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        message = f"there is no session {session_id}"
        raise NotFoundError(message)
    chain = ScopeChain(
        tenant=TenantId(row.tenant), agent=PrincipalId(row.agent), session=session_id
    )
    _ensure(connection, chain, task_class=DEFAULT_CLASS, now_ms=now_ms)


def _extend(
    connection: Connection,
    session_id: SessionId,
    *,
    turns: int,
    reason: str,
    by: Actor,
    now_ms: int,
) -> TurnsView:
    _ensure_known(connection, session_id, now_ms=now_ms)
    before = view_of(connection, session_id)
    number = len(before.extensions) + 1
    connection.execute(
        insert(turn_extensions),
        {
            "session_id": session_id,
            "number": number,
            "turns": turns,
            "reason": reason,
            "granted_by": by.name,
            "granted_at_ms": now_ms,
        },
    )
    # It goes on, so it is whole again until it is denied another turn.
    is_this = session_turns.c.session_id == session_id
    connection.execute(update(session_turns).where(is_this).values(was_cut=False))
    note(
        connection,
        by=by,
        at_ms=now_ms,
        action="session.extend",
        target=session_id,
        before={"extended": before.extended},
        after={"extended": before.extended + turns, "turns": turns, "reason": reason},
    )
    return view_of(connection, session_id)


def _set_outcome(
    connection: Connection, session_id: SessionId, *, is_solved: bool, by: Actor, now_ms: int
) -> TurnsView:
    _ensure_known(connection, session_id, now_ms=now_ms)
    before = view_of(connection, session_id)
    connection.execute(
        update(session_turns)
        .where(session_turns.c.session_id == session_id)
        .values(is_solved=is_solved, outcome_at_ms=now_ms, outcome_by=by.name)
    )
    note(
        connection,
        by=by,
        at_ms=now_ms,
        action="session.outcome",
        target=session_id,
        before=None if before.is_solved is None else {"success": before.is_solved},
        after={"success": is_solved},
    )
    return view_of(connection, session_id)
