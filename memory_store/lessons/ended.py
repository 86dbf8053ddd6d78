"""Sessions that ended with an outcome, which is what can be reflected on."""

from dataclasses import dataclass

from sqlalchemy import select

from governor.ids import PrincipalId, SessionId, TaskClass, TenantId
from memory_store.reader import Reader
from memory_store.turn_tables import session_turns

ENDED_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSession:
    """A session of which somebody said how it went."""

    session: SessionId
    tenant: TenantId
    agent: PrincipalId
    task_class: TaskClass
    is_solved: bool
    ended_at_ms: int


class EndedSessions:
    """Reads which sessions ended."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def since(self, at_ms: int, *, most: int = ENDED_MAX) -> tuple[EndedSession, ...]:
        """Return sessions of which somebody said after `at_ms` how they went, the latest first."""
        table = session_turns.c
        query = (
            select(session_turns)
            .where(table.outcome_at_ms > at_ms, table.is_solved.is_not(None))
            .order_by(table.outcome_at_ms.desc(), table.session_id)
            .limit(most)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(
            EndedSession(
                session=SessionId(row.session_id),
                tenant=TenantId(row.tenant),
                agent=PrincipalId(row.agent),
                task_class=TaskClass(row.task_class),
                is_solved=bool(row.is_solved),
                ended_at_ms=row.outcome_at_ms,
            )
            for row in rows
        )
