"""Sessions that ended with an outcome, which is what can be reflected on."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

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
        """Return sessions of which somebody said after `at_ms` how they went, the first of them."""
        table = session_turns.c
        query = select(session_turns).where(table.outcome_at_ms > at_ms)
        return await self._found(query.order_by(table.outcome_at_ms, table.session_id), most)

    async def before(
        self, at_ms: int, *, since_ms: int, most: int = ENDED_MAX
    ) -> tuple[EndedSession, ...]:
        """Return sessions of which somebody said so until `at_ms`, the latest of them first."""
        table = session_turns.c
        query = select(session_turns).where(
            table.outcome_at_ms <= at_ms, table.outcome_at_ms > since_ms
        )
        order = (table.outcome_at_ms.desc(), table.session_id)
        return await self._found(query.order_by(*order), most)

    async def _found(self, asked: Select[Any], most: int) -> tuple[EndedSession, ...]:
        query = asked.where(session_turns.c.is_solved.is_not(None)).limit(most)
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
