"""What is asked of the memory time and again, the answers made beforehand, what both cost."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update

from governor.ids import CallId, ExperienceId, NamespaceId, TenantId
from memory_store.experiences.tables import experience_keys
from memory_store.lessons.tables import memory_questions, quiet_works
from memory_store.reader import Reader
from memory_store.writer import Writer

# Of a tenant; those that nobody asked for the longest give way.
QUESTIONS_MAX = 2_000
REMOVED_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A search as it was asked; `question` is a hash of its words and of who may read what.

    `filters` is JSON. `tokens` is what the answer took that was found by searching.
    """

    tenant: TenantId
    question: str
    words: str
    namespaces: tuple[NamespaceId, ...]
    filters: str
    tokens: int
    asked_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurring:
    """A question that was asked so often."""

    about: Question
    asked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The answer to a question that was made beforehand, out of `sources`.

    `head` is the end of the tenant's log as of then: what was logged later may change it.
    `searched_tokens` is what the question took when it was searched for.
    """

    answer: ExperienceId
    sources: tuple[ExperienceId, ...]
    answer_tokens: int
    searched_tokens: int
    answered_at_ms: int
    head: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietWork:
    """One thing that the house did in quiet hours; the call is that of the ledger."""

    call_id: CallId
    tenant: TenantId
    work: str
    began_at_ms: int
    wall_ms: int
    tokens: int
    cost_microusd: int | None
    made: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietFigures:
    """What work in quiet hours cost and what it saved."""

    works: int
    made: int
    wall_ms: int
    tokens: int
    cost_microusd: int
    served: int
    tokens_saved: int


class QuestionBook:
    """Keeps recurring questions of tenants with the answers that were made beforehand."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def note(self, questions: tuple[Question, ...]) -> None:
        """Count that questions were asked; where too much waits to be written, they are not."""

        def work(connection: Connection) -> None:
            for one in questions:
                _note(connection, one)
            for tenant in {one.tenant for one in questions}:
                _make_room(connection, tenant)

        if questions:
            await self._writer.run(work, may_be_dropped=True)

    async def recurring(self, *, asked_min: int, most: int) -> tuple[Recurring, ...]:
        """Return questions without an answer that were asked so often, the most often first."""
        table = memory_questions.c
        query = (
            select(memory_questions)
            .where(table.answer.is_(None), table.asked >= asked_min)
            .order_by((table.asked * table.tokens).desc(), table.question)
            .limit(most)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(
            Recurring(
                about=Question(
                    tenant=TenantId(row.tenant),
                    question=row.question,
                    words=row.words,
                    namespaces=tuple(NamespaceId(one) for one in json.loads(row.namespaces)),
                    filters=row.filters,
                    tokens=row.tokens,
                    asked_at_ms=row.asked_at_ms,
                ),
                asked=row.asked,
            )
            for row in rows
        )

    async def prepared(self, tenant: TenantId, question: str) -> Prepared | None:
        """Return the answer that was made beforehand, None if there is none."""
        table = memory_questions.c
        query = select(memory_questions).where(
            table.tenant == tenant, table.question == question, table.answer.is_not(None)
        )
        row = await self._reader.run(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            return None
        return Prepared(
            answer=ExperienceId(row.answer),
            sources=tuple(ExperienceId(one) for one in json.loads(row.sources)),
            answer_tokens=row.answer_tokens,
            searched_tokens=row.tokens,
            answered_at_ms=row.answered_at_ms,
            head=row.head,
        )

    async def head(self, tenant: TenantId) -> int:
        """Return the number of the last entry of a tenant's log, which answers are as of."""
        query = select(experience_keys.c.head_number).where(experience_keys.c.tenant == tenant)
        found = await self._reader.run(lambda connection: connection.scalar(query))
        return int(found or 0)

    async def answered(self, tenant: TenantId, question: str, prepared: Prepared) -> None:
        """Keep the answer to a question, or that it still held later."""
        values = {
            "answer": prepared.answer,
            "sources": json.dumps(prepared.sources),
            "answer_tokens": prepared.answer_tokens,
            "answered_at_ms": prepared.answered_at_ms,
            "head": prepared.head,
        }
        query = update(memory_questions).where(_is(tenant, question)).values(values)
        await self._writer.run(lambda connection: connection.execute(query).close())

    async def served(self, tenant: TenantId, question: str, *, saved: int, now_ms: int) -> None:
        """Count that an answer was handed out instead of a search, and what that saved."""
        table = memory_questions.c
        query = (
            update(memory_questions)
            .where(_is(tenant, question))
            .values(
                served=table.served + 1,
                tokens_saved=table.tokens_saved + saved,
                asked=table.asked + 1,
                asked_at_ms=now_ms,
            )
        )
        await self._writer.run(
            lambda connection: connection.execute(query).close(), may_be_dropped=True
        )

    async def drop(self, tenant: TenantId, question: str) -> None:
        """Forget the answer to a question; it may be answered anew."""
        query = update(memory_questions).where(_is(tenant, question)).values(_NO_ANSWER)
        await self._writer.run(lambda connection: connection.execute(query).close())

    async def note_work(self, work: QuietWork) -> None:
        """Keep what was done in quiet hours."""
        row = {
            "call_id": work.call_id,
            "tenant": work.tenant,
            "work": work.work,
            "began_at_ms": work.began_at_ms,
            "wall_ms": work.wall_ms,
            "tokens": work.tokens,
            "cost_microusd": work.cost_microusd,
            "made": work.made,
        }
        await self._writer.run(
            lambda connection: connection.execute(insert(quiet_works), row).close()
        )

    async def last_work(self, tenant: TenantId, work: str) -> int:
        """Return when a work was last begun that was done, 0 where it never was."""
        table = quiet_works.c
        query = select(func.max(table.began_at_ms)).where(
            table.tenant == tenant, table.work == work
        )
        found = await self._reader.run(lambda connection: connection.scalar(query))
        return int(found or 0)

    async def figures(self, tenant: TenantId | None = None) -> QuietFigures:
        """Return what quiet hours cost and saved; of what is still kept."""
        works, questions = quiet_works.c, memory_questions.c
        spent = select(
            func.count(),
            func.coalesce(func.sum(works.made), 0),
            func.coalesce(func.sum(works.wall_ms), 0),
            func.coalesce(func.sum(works.tokens), 0),
            func.coalesce(func.sum(works.cost_microusd), 0),
        ).select_from(quiet_works)
        saved = select(
            func.coalesce(func.sum(questions.served), 0),
            func.coalesce(func.sum(questions.tokens_saved), 0),
        )
        if tenant is not None:
            spent = spent.where(works.tenant == tenant)
            saved = saved.where(questions.tenant == tenant)

        def read(connection: Connection) -> QuietFigures:
            one, two = connection.execute(spent).one(), connection.execute(saved).one()
            return QuietFigures(
                works=int(one[0]),
                made=int(one[1]),
                wall_ms=int(one[2]),
                tokens=int(one[3]),
                cost_microusd=int(one[4]),
                served=int(two[0]),
                tokens_saved=int(two[1]),
            )

        return await self._reader.run(read)

    async def remove(self, *, before_ms: int) -> int:
        """Remove questions that nobody asked since, and works of before; return how many."""

        def work(connection: Connection) -> int:
            table, works = memory_questions.c, quiet_works.c
            old = select(table.tenant, table.question).where(table.asked_at_ms < before_ms)
            rows = connection.execute(old.limit(REMOVED_AT_ONCE)).all()
            for row in rows:
                connection.execute(delete(memory_questions).where(_is(row.tenant, row.question)))
            done = select(works.call_id).where(works.began_at_ms < before_ms)
            ids = connection.scalars(done.limit(REMOVED_AT_ONCE)).all()
            connection.execute(delete(quiet_works).where(works.call_id.in_(ids)))
            return len(rows) + len(ids)

        total = 0
        while removed := await self._writer.run(work, may_be_dropped=True):
            total += removed
        return total


_NO_ANSWER = {"answer": None, "sources": "[]", "answer_tokens": 0, "answered_at_ms": None}


def forget_answers(connection: Connection, tenant: TenantId, ids: Sequence[ExperienceId]) -> None:
    """Forget the answers that are, or are made of, one of these experiences."""
    table = memory_questions.c
    for one in ids:
        is_of_it = or_(
            table.answer == one, table.sources.contains(json.dumps(one), autoescape=True)
        )
        connection.execute(
            update(memory_questions).where(table.tenant == tenant, is_of_it).values(_NO_ANSWER)
        )


def _is(tenant: str, question: str) -> ColumnElement[bool]:
    table = memory_questions.c
    return (table.tenant == tenant) & (table.question == question)


def _note(connection: Connection, one: Question) -> None:
    table = memory_questions.c
    counted = {"asked": table.asked + 1, "tokens": one.tokens, "asked_at_ms": one.asked_at_ms}
    is_it = _is(one.tenant, one.question)
    if connection.execute(update(memory_questions).where(is_it).values(counted)).rowcount:
        return
    connection.execute(
        insert(memory_questions),
        {
            "tenant": one.tenant,
            "question": one.question,
            "words": one.words,
            "namespaces": json.dumps(one.namespaces),
            "filters": one.filters,
            "asked": 1,
            "tokens": one.tokens,
            "asked_at_ms": one.asked_at_ms,
            "head": 0,
            "served": 0,
            "tokens_saved": 0,
            **_NO_ANSWER,
        },
    )


def _make_room(connection: Connection, tenant: TenantId) -> None:
    table = memory_questions.c
    count = connection.scalar(select(func.count()).where(table.tenant == tenant)) or 0
    if count <= QUESTIONS_MAX:
        return
    oldest = (
        select(table.question)
        .where(table.tenant == tenant)
        .order_by(table.asked_at_ms)
        .limit(count - QUESTIONS_MAX)
    )
    names = connection.scalars(oldest).all()
    connection.execute(
        delete(memory_questions).where(table.tenant == tenant, table.question.in_(names))
    )
