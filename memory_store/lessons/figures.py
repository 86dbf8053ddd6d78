"""What there is in a tenant's memory and what is known of it, counted."""

from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select

from governor.ids import TaskClass, TenantId
from memory_store.choice_tables import memory_choices
from memory_store.experiences.tables import experiences
from memory_store.reader import Reader
from memory_store.turn_tables import session_turns

CLASSES_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """How many experiences stand in a lane, of a kind, and how large they are."""

    lane: str
    kind: str
    standing: str
    experiences: int
    content_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRecord:
    """How many tasks of a class somebody spoke of, and how many of them were solved."""

    task_class: TaskClass
    tasks: int
    solved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceFigures:
    """How often a choice fell so, what it took on average, and of how many somebody spoke."""

    what: str
    arm: str
    choices: int
    explored: int
    spoken_of: int
    tokens: int
    latency_us: int


class MemoryFigures:
    """Counts what is kept of a tenant's memory."""

    def __init__(self, *, reader: Reader) -> None:
        self._reader = reader

    async def kept(self, tenant: TenantId) -> tuple[LaneFigures, ...]:
        """Return what is kept, by lane and kind."""
        table = experiences.c
        by = (table.lane, table.kind, table.standing)
        query = (
            select(*by, func.count(), func.coalesce(func.sum(table.size_bytes), 0))
            .where(table.tenant == tenant)
            .group_by(*by)
            .order_by(*by)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(
            LaneFigures(
                lane=lane,
                kind=kind,
                standing=standing,
                experiences=int(count),
                content_bytes=int(size),
            )
            for lane, kind, standing, count, size in rows
        )

    async def classes(self, tenant: TenantId) -> tuple[ClassRecord, ...]:
        """Return how the tasks of each class went, those with the most of them first."""
        table = session_turns.c
        tasks = func.count()
        query = (
            select(table.task_class, tasks, func.sum(case((table.is_solved, 1), else_=0)))
            .where(table.tenant == tenant, table.is_solved.is_not(None))
            .group_by(table.task_class)
            .order_by(tasks.desc(), table.task_class)
            .limit(CLASSES_MAX)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(
            ClassRecord(task_class=TaskClass(name), tasks=int(count), solved=int(solved))
            for name, count, solved in rows
        )

    async def choices(self, tenant: TenantId) -> tuple[ChoiceFigures, ...]:
        """Return how searches were done and what became of what was offered to teams."""
        table = memory_choices.c
        by = (table.what, table.arm)
        query = (
            select(
                *by,
                func.count(),
                func.sum(case((table.explored, 1), else_=0)),
                func.count(table.outcome),
                func.avg(table.tokens),
                func.avg(table.latency_us),
            )
            .where(table.tenant == tenant)
            .group_by(*by)
            .order_by(*by)
        )

        def read(connection: Connection) -> tuple[ChoiceFigures, ...]:
            return tuple(
                ChoiceFigures(
                    what=what,
                    arm=arm,
                    choices=int(count),
                    explored=int(explored),
                    spoken_of=int(spoken),
                    tokens=round(tokens),
                    latency_us=round(latency),
                )
                for what, arm, count, explored, spoken, tokens, latency in connection.execute(query)
            )

        return await self._reader.run(read)
