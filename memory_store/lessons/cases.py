"""Which cases were read by whom, with which chance, and what is learned of that."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from governor.experience.cases import READERS_MAX, ReadCase
from governor.experience.guidance import TaskRecord
from governor.ids import CallId, ExperienceId, PrincipalId, SessionId, TaskClass, TenantId
from memory_store.advisory import Duty, in_turn
from memory_store.errors import VersionConflictError
from memory_store.lessons.tables import case_models, case_reads
from memory_store.reader import Reader
from memory_store.turn_tables import session_turns
from memory_store.writer import Writer

REMOVED_AT_ONCE = 256
CASES_ASKED_MAX = 64
# The record of a class goes by its latest tasks: what it once was is of no use.
RECORD_MAX = 100
# The reads of one session that its outcome is told to: the latest.
SESSION_READS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRead:
    """One case that somebody read, with all that its lesson needs."""

    choice: CallId
    case: ExperienceId
    tenant: TenantId
    reader: PrincipalId
    session: SessionId
    task_class: TaskClass
    sketch: bytes
    slot: int
    propensity: float
    explored: bool
    read: ReadCase


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """What is said of a reader: of its whole session, or of some cases that it read alone."""

    session: SessionId
    score: float
    weight: float
    is_trusted: bool
    cases: tuple[ExperienceId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedRead:
    """A read with what is said of it now, and what a model was taught of it before."""

    about: CaseRead
    score: float | None
    weight: float
    learned_score: float | None = None
    learned_weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseModel:
    """What was learned of a tenant's cases; `learned` is None where that is nothing."""

    revision: int = 0
    learned: bytes | None = None


NO_MODEL = CaseModel()


class CaseBook:
    """Keeps which cases were read, and what is known of their worth."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def record(self, reads: tuple[CaseRead, ...]) -> None:
        """Keep reads; one that is here already stays as it is."""

        def work(connection: Connection) -> None:
            choices = {one.choice for one in reads}
            table = case_reads.c
            query = select(table.choice, table.case_id).where(table.choice.in_(choices))
            known = {(row.choice, row.case_id) for row in connection.execute(query)}
            rows = [_row(one) for one in reads if (one.choice, one.case) not in known]
            if rows:
                connection.execute(insert(case_reads), rows)

        if reads:
            await self._writer.run(work)

    async def report(self, outcome: CaseOutcome) -> int:
        """Keep what became of readers; return of how many reads.

        A trusted word stands against one that is not, else the last one does.
        """
        table = case_reads.c
        about = [table.session == outcome.session]
        if outcome.cases:
            about.append(table.case_id.in_(outcome.cases[:CASES_ASKED_MAX]))
        if not outcome.is_trusted:
            about.append(table.is_trusted.is_(False))
        latest = (
            select(table.choice)
            .where(*about)
            .order_by(table.read_at_ms.desc())
            .limit(SESSION_READS_MAX)
        )
        is_other = or_(
            table.score.is_(None), table.score != outcome.score, table.weight != outcome.weight
        )
        query = (
            update(case_reads)
            .where(*about, table.choice.in_(latest), is_other)
            .values(
                score=outcome.score,
                weight=outcome.weight,
                is_trusted=outcome.is_trusted,
                is_pending=True,
            )
        )
        return await self._writer.run(lambda connection: connection.execute(query).rowcount)

    async def readers_of(
        self, cases: tuple[ExperienceId, ...], *, tenant: TenantId
    ) -> Mapping[ExperienceId, tuple[RatedRead, ...]]:
        """Return the latest readers of cases of whom it is known what became of them."""
        table = case_reads.c
        asked = cases[:CASES_ASKED_MAX]
        place = func.row_number().over(
            partition_by=table.case_id, order_by=(table.read_at_ms.desc(), table.choice)
        )
        ranked = (
            select(case_reads, place.label("place"))
            .where(table.tenant == tenant, table.case_id.in_(asked), table.score.is_not(None))
            .subquery()
        )
        query = select(ranked).where(ranked.c.place <= READERS_MAX).order_by(ranked.c.place)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        found: dict[ExperienceId, list[RatedRead]] = {}
        for row in rows:
            found.setdefault(ExperienceId(row.case_id), []).append(_rated(row))
        return {case: tuple(reads) for case, reads in found.items()}

    async def record_of(self, tenant: TenantId, task_class: TaskClass) -> TaskRecord:
        """Return how the latest tasks of a class went of which somebody said so."""
        latest = (
            select(session_turns.c.is_solved)
            .where(
                session_turns.c.tenant == tenant,
                session_turns.c.task_class == task_class,
                session_turns.c.is_solved.is_not(None),
            )
            .order_by(session_turns.c.begun_at_ms.desc())
            .limit(RECORD_MAX)
        )
        found = await self._reader.run(lambda connection: connection.scalars(latest).all())
        return TaskRecord(solved=float(sum(map(bool, found))), ended=float(len(found)))

    async def pending(self, *, limit: int) -> tuple[RatedRead, ...]:
        """Return reads that teach something, those of one tenant together."""
        table = case_reads.c
        query = (
            select(case_reads)
            .where(table.is_pending)
            .order_by(table.tenant, table.read_at_ms, table.choice, table.case_id)
            .limit(limit)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(_rated(row) for row in rows)

    async def model(self, tenant: TenantId) -> CaseModel:
        """Return what was learned of a tenant's cases."""
        query = select(case_models).where(case_models.c.tenant == tenant)
        row = await self._reader.run(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            return NO_MODEL
        return CaseModel(revision=row.revision, learned=bytes(row.learned))

    async def learn(
        self,
        learned: bytes,
        taught: tuple[RatedRead, ...],
        *,
        tenant: TenantId,
        over: int,
        now_ms: int,
    ) -> int:
        """Keep what was learned over revision `over`; return its own.

        Raises:
            VersionConflictError: another sidecar learned since.
        """

        def work(connection: Connection) -> int:
            table = case_models.c
            query = select(table.revision).where(table.tenant == tenant)
            actual = connection.scalar(query) or 0
            if actual != over:
                raise VersionConflictError(expected=over, actual=actual)
            values = {"revision": over + 1, "learned": learned, "learned_at_ms": now_ms}
            if actual:
                connection.execute(update(case_models).where(table.tenant == tenant).values(values))
            else:
                connection.execute(insert(case_models), {"tenant": tenant, **values})
            _mark_taught(connection, taught)
            return over + 1

        return await self._writer.run(in_turn(Duty.LEARNING, work))

    async def remove(self, *, before_ms: int) -> int:
        """Remove reads of before, some at a time; return how many."""
        total = 0
        while removed := await self._writer.run(
            lambda connection: _remove(connection, before_ms=before_ms), may_be_dropped=True
        ):
            total += removed
        return total


def forget_cases(connection: Connection, tenant: TenantId, cases: Sequence[ExperienceId]) -> None:
    """Erase who read the cases and what became of it; what was learned of their traits stays."""
    table = case_reads.c
    connection.execute(delete(case_reads).where(table.tenant == tenant, table.case_id.in_(cases)))


def _mark_taught(connection: Connection, taught: Sequence[RatedRead]) -> None:
    table = case_reads.c
    for one in taught:
        about = one.about
        is_this = (table.choice == about.choice) & (table.case_id == about.case)
        # What was said anew meanwhile is still to be learned.
        is_same = (table.score == one.score) & (table.weight == one.weight)
        learned = {"learned_score": one.score, "learned_weight": one.weight}
        connection.execute(update(case_reads).where(is_this).values(**learned))
        connection.execute(update(case_reads).where(is_this, is_same).values(is_pending=False))


def _remove(connection: Connection, *, before_ms: int) -> int:
    table = case_reads.c
    old = select(table.choice).where(table.read_at_ms < before_ms).limit(REMOVED_AT_ONCE)
    choices = connection.scalars(old).all()
    is_old = table.read_at_ms < before_ms
    query = delete(case_reads).where(table.choice.in_(choices), is_old)
    return connection.execute(query).rowcount if choices else 0


def _row(one: CaseRead) -> dict[str, object]:
    read = one.read
    return {
        "choice": one.choice,
        "case_id": one.case,
        "tenant": one.tenant,
        "reader": one.reader,
        "session": one.session,
        "task_class": one.task_class,
        "sketch": one.sketch,
        "slot": one.slot,
        "propensity": one.propensity,
        "explored": one.explored,
        "features": struct.pack(f"<{len(read.features)}d", *read.features),
        "base": read.base,
        "linear": read.linear,
        "own": read.own,
        "share": read.share,
        "read_at_ms": read.read_at_ms,
        "weight": 0.0,
        "is_trusted": False,
        "is_pending": False,
    }


def _rated(row: Any) -> RatedRead:
    read = ReadCase(
        features=struct.unpack(f"<{len(row.features) // 8}d", row.features),
        base=row.base,
        linear=row.linear,
        own=row.own,
        share=row.share,
        read_at_ms=row.read_at_ms,
    )
    about = CaseRead(
        choice=CallId(row.choice),
        case=ExperienceId(row.case_id),
        tenant=TenantId(row.tenant),
        reader=PrincipalId(row.reader),
        session=SessionId(row.session),
        task_class=TaskClass(row.task_class),
        sketch=bytes(row.sketch),
        slot=row.slot,
        propensity=row.propensity,
        explored=bool(row.explored),
        read=read,
    )
    return RatedRead(
        about=about,
        score=row.score,
        weight=row.weight,
        learned_score=row.learned_score,
        learned_weight=row.learned_weight,
    )
