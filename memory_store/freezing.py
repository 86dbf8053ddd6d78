"""What ending or freezing a session means for those below it, and freezing for their holds."""

from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from governor.ids import SessionId
from governor.session import SessionState
from memory_store.tables import reservations, sessions

# Who closes the sessions that nobody named and that rest.
IDLE = "idle"
# What a frozen session puts the expiry of its holds off by. It is further away than any clock,
# so that a hold shows by itself whether it was put off: 10,000 years.
FROZEN_MS_MAX = 10_000 * 366 * 24 * 60 * 60 * 1000


def below(connection: Connection, session_id: SessionId) -> list[SessionId]:
    """Return the session and all that were carved out of it, however deep."""
    found = [session_id]
    level = [session_id]
    while level:
        rows = connection.scalars(select(sessions.c.session_id).where(sessions.c.parent.in_(level)))
        level = [SessionId(row) for row in rows]
        found += level
    return found


def own_state(*, agent: str, closed_by: str | None, frozen_at_ms: int | None) -> SessionState:
    """Return how a session of `agent` stands that has nothing above it."""
    if closed_by is not None:
        if closed_by == agent:
            return SessionState.CLOSED_BY_AGENT
        is_at_rest = closed_by == IDLE
        return SessionState.CLOSED_AT_REST if is_at_rest else SessionState.CLOSED
    return SessionState.OPEN if frozen_at_ms is None else SessionState.FROZEN


def state_below(above: SessionState, own: SessionState) -> SessionState:
    """Return how a session stands below another: that one's end or pause is its own too."""
    return own if above is SessionState.OPEN or own.is_closed else above


def state_of(connection: Connection, session_id: SessionId) -> SessionState:
    """Return how a session that was seen stands, by itself and by all that are above it."""
    row = connection.execute(
        select(
            sessions.c.agent, sessions.c.closed_by, sessions.c.frozen_at_ms, sessions.c.parent
        ).where(sessions.c.session_id == session_id)
    ).one()
    own = own_state(agent=row.agent, closed_by=row.closed_by, frozen_at_ms=row.frozen_at_ms)
    if row.parent is None:
        return own
    return state_below(state_of(connection, SessionId(row.parent)), own)


def put_off(connection: Connection, frozen: Sequence[SessionId]) -> None:
    """Keep the live holds of `frozen` sessions from expiring until `take_up`."""
    _move(connection, frozen, by_ms=FROZEN_MS_MAX, above_ms=-1)


def take_up(connection: Connection, thawed: Sequence[SessionId], *, frozen_for_ms: int) -> None:
    """Let the holds that were put off expire again, later by the time they were frozen for."""
    # A clock that stepped back gives no time, and takes none.
    by_ms = max(0, frozen_for_ms) - FROZEN_MS_MAX
    _move(connection, thawed, by_ms=by_ms, above_ms=FROZEN_MS_MAX)


def _move(connection: Connection, of: Sequence[SessionId], *, by_ms: int, above_ms: int) -> None:
    expires_at_ms = reservations.c.expires_at_ms
    connection.execute(
        update(reservations)
        .where(
            reservations.c.session.in_(of),
            reservations.c.ended_at_ms.is_(None),
            expires_at_ms > above_ms,
        )
        .values(expires_at_ms=expires_at_ms + by_ms)
    )
