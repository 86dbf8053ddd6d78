"""The log of what memory chooses by itself, and what was learned of it.

A choice is kept with how probable it was, what it took and what was shown; what became of it is
said later, perhaps several times, and is learned once for each time that it changed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as insert_of_postgresql

from governor.ids import ExperienceId, NamespaceId, PrincipalId, SessionId, TenantId
from memory_store.advisory import Duty, in_turn
from memory_store.choice_tables import memory_choices, memory_learned
from memory_store.engine import driver_of
from memory_store.errors import NotFoundError, VersionConflictError
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.statement import Statement, Value
from memory_store.writer import Writer

# Of a session only the latest searches are looked through for what was shown.
SESSION_CHOICES_MAX = 50
PENDING_MAX = 256
PARTS_MAX = 500
REMOVED_AT_ONCE = 256
NO_BANK = NamespaceId("")
_choices, _learned = memory_choices.c, memory_learned.c
_NOT_YET_SAID = frozenset({"outcome", "learned"})
_KEEP = Statement(
    insert_of_postgresql(memory_choices)
    .values(
        {
            column.name: bindparam(column.name, type_=column.type)
            for column in memory_choices.c
            if column.name not in _NOT_YET_SAID
        }
    )
    .on_conflict_do_nothing(index_elements=["tenant", "what", "key"])
)


class What(StrEnum):
    """What was chosen: the plan of a search, or what enters a bank."""

    SEARCH = "search"
    SHARING = "sharing"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChoice:
    """One choice: between what, how probable each was, and what it took.

    `key` is the call of a search, or the experience that was offered; `subject` is its copy in
    the bank. `options` is JSON with the chances, `context` numbers as little-endian float64.
    """

    tenant: TenantId
    what: What
    key: str
    agent: PrincipalId
    session: SessionId
    decided_at_ms: int
    arm: str
    propensity: float
    explored: bool
    options: str
    context: bytes
    bank: NamespaceId = NO_BANK
    price: float = 0.0
    subject: ExperienceId | None = None
    shown: tuple[ExperienceId, ...] = ()
    tokens: int = 0
    latency_us: int = 0
    cost_microusd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceMade:
    """A choice, what is known of it by now (JSON), and what was learned of that (JSON)."""

    choice: MemoryChoice
    outcome: str | None = None
    learned: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was learned of a tenant's searches or of a bank; `revision` counts the changes."""

    revision: int = 0
    in_force: bool = False
    state: bytes | None = None


class ChoiceLog:
    """Keeps what memory chose, what became of it, and what was learned of that."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def record(self, choices: tuple[MemoryChoice, ...]) -> None:
        """Keep choices; one that is here already stays as it is."""
        rows = [_row(choice) for choice in choices]

        def work(connection: Connection) -> None:
            _KEEP.run_each(driver_of(connection), rows)

        await self._writer.run(work)

    async def say(self, tenant: TenantId, what: What, key: str, outcome: str) -> bool:
        """Keep what became of a choice; return whether there is such a choice."""

        def work(connection: Connection) -> bool:
            is_this = _is(tenant, what, key)
            if connection.scalar(select(_choices.key).where(is_this)) is None:
                return False
            is_news = or_(_choices.outcome.is_(None), _choices.outcome != outcome)
            connection.execute(
                update(memory_choices)
                .where(is_this, is_news)
                .values(outcome=outcome, is_pending=True)
            )
            return True

        return await self._writer.run(work)

    async def add(self, tenant: TenantId, what: What, key: str, part: str, said: float) -> bool:
        """Add a part of an outcome, which is a JSON object; return whether there is such a choice.

        The last word under a name stands. Those who add at once lose nothing of one another;
        beyond `PARTS_MAX` names nothing more is taken.
        """

        def work(connection: Connection) -> bool:
            is_this = _is(tenant, what, key)
            row = connection.execute(
                select(_choices.outcome).where(is_this).with_for_update()
            ).one_or_none()
            if row is None:
                return False
            parts: dict[str, float] = {} if row.outcome is None else json.loads(row.outcome)
            is_new = part not in parts
            if parts.get(part) == said or (is_new and len(parts) >= PARTS_MAX):
                return True
            after = json.dumps({**parts, part: said}, sort_keys=True)
            connection.execute(
                update(memory_choices).where(is_this).values(outcome=after, is_pending=True)
            )
            return True

        return await self._writer.run(work)

    async def that_showed(
        self, tenant: TenantId, session: SessionId, indices: tuple[ExperienceId, ...]
    ) -> tuple[ChoiceMade, ...]:
        """Return the latest searches of a session that showed one of these, the latest first."""
        query = (
            select(memory_choices)
            .where(_choices.tenant == tenant, _choices.session == session)
            .where(_choices.what == What.SEARCH.value)
            .order_by(_choices.decided_at_ms.desc(), _choices.key)
            .limit(SESSION_CHOICES_MAX)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        wanted = set(indices)
        return tuple(one for row in rows if wanted & set((one := _made(row)).choice.shown))

    async def about(
        self, tenant: TenantId, subjects: tuple[ExperienceId, ...]
    ) -> tuple[ChoiceMade, ...]:
        """Return the decisions that put these experiences into a bank."""
        query = select(memory_choices).where(
            _choices.tenant == tenant, _choices.subject.in_(subjects)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(_made(row) for row in rows)

    async def get(self, tenant: TenantId, what: What, key: str) -> ChoiceMade | None:
        """Return a choice, None where there is none."""
        query = select(memory_choices).where(_is(tenant, what, key))
        row = await self._reader.run(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else _made(row)

    async def pending(self, what: What, *, limit: int = PENDING_MAX) -> tuple[ChoiceMade, ...]:
        """Return choices of which there is something to learn, the oldest first."""
        query = (
            select(memory_choices)
            .where(_choices.what == what.value, _choices.is_pending)
            .order_by(_choices.decided_at_ms, _choices.tenant, _choices.key)
            .limit(limit)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(_made(row) for row in rows)

    async def silent(
        self, what: What, *, before_ms: int, limit: int = PENDING_MAX
    ) -> tuple[ChoiceMade, ...]:
        """Return choices from before then that nobody has said anything of."""
        query = (
            select(memory_choices)
            .where(_choices.what == what.value, _choices.outcome.is_(None))
            .where(_choices.decided_at_ms < before_ms)
            .order_by(_choices.decided_at_ms, _choices.tenant, _choices.key)
            .limit(limit)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(_made(row) for row in rows)

    async def page(
        self,
        tenant: TenantId,
        what: What,
        *,
        is_known: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[ChoiceMade]:
        """Return a tenant's choices, the latest first; with `is_known` those with an outcome."""
        limit = clamped(limit)
        at, key = _choices.decided_at_ms, _choices.key
        query = select(memory_choices).where(_choices.tenant == tenant, _choices.what == what.value)
        if is_known:
            query = query.where(_choices.outcome.is_not(None))
        if cursor is not None:
            at_ms, name = key_of(cursor, kinds=(int, str))
            query = query.where(or_(at < at_ms, and_(at == at_ms, key < name)))
        query = query.order_by(at.desc(), key.desc()).limit(limit + 1)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return page_of(rows, limit=limit, item=_made, key=lambda row: (row.decided_at_ms, row.key))

    async def learned(self, tenant: TenantId, what: What, bank: NamespaceId = NO_BANK) -> Learned:
        """Return what was learned; nothing where nothing was."""
        return await self._reader.run(lambda connection: _standing(connection, tenant, what, bank))

    async def learn(
        self,
        state: bytes,
        taught: tuple[ChoiceMade, ...],
        *,
        tenant: TenantId,
        what: What,
        over: Learned,
        now_ms: int,
        bank: NamespaceId = NO_BANK,
    ) -> Learned:
        """Keep what was learned over what was known, and of which outcomes.

        Raises:
            VersionConflictError: somebody else learned since.
        """

        def work(connection: Connection) -> Learned:
            found = _expected(connection, tenant, what, bank, over.revision)
            _write(connection, (tenant, what, bank), found, state=state, changed_at_ms=now_ms)
            _mark(connection, taught)
            return _standing(connection, tenant, what, bank)

        return await self._writer.run(in_turn(Duty.LEARNING, work))

    async def put_in_force(
        self, tenant: TenantId, what: What, *, expected_revision: int, now_ms: int
    ) -> Learned:
        """Let what was learned decide from now on.

        Raises:
            NotFoundError: nothing was learned.
            VersionConflictError: somebody learned since.
        """

        def work(connection: Connection) -> Learned:
            found = _expected(connection, tenant, what, NO_BANK, expected_revision)
            if found.state is None:
                message = "nothing was learned of this tenant's searches yet"
                raise NotFoundError(message)
            _write(
                connection,
                (tenant, what, NO_BANK),
                found,
                state=found.state,
                in_force=True,
                before=_learned.promoted if found.in_force else None,
                promoted=found.state,
                changed_at_ms=now_ms,
            )
            return _standing(connection, tenant, what, NO_BANK)

        return await self._writer.run(in_turn(Duty.LEARNING, work))

    async def roll_back(
        self, tenant: TenantId, what: What, *, expected_revision: int, now_ms: int
    ) -> Learned:
        """Put in force what was before; at the end nothing that was learned is.

        Raises:
            NotFoundError: nothing that was learned is in force.
            VersionConflictError: somebody learned since.
        """

        def work(connection: Connection) -> Learned:
            found = _expected(connection, tenant, what, NO_BANK, expected_revision)
            if not found.in_force or found.state is None:
                message = "nothing that was learned is in force for this tenant's searches"
                raise NotFoundError(message)
            is_this = _of(tenant, what, NO_BANK)
            before = connection.scalar(select(_learned.before).where(is_this))
            _write(
                connection,
                (tenant, what, NO_BANK),
                found,
                state=found.state if before is None else bytes(before),
                in_force=before is not None,
                promoted=before,
                before=None,
                changed_at_ms=now_ms,
            )
            return _standing(connection, tenant, what, NO_BANK)

        return await self._writer.run(in_turn(Duty.LEARNING, work))

    async def remove(self, *, before_ms: int) -> int:
        """Remove choices of before, some at a time; return how many."""
        total = 0
        while removed := await self._writer.run(
            lambda connection: _remove(connection, before_ms=before_ms), may_be_dropped=True
        ):
            total += removed
        return total


def _standing(connection: Connection, tenant: TenantId, what: What, bank: NamespaceId) -> Learned:
    row = connection.execute(select(memory_learned).where(_of(tenant, what, bank))).one_or_none()
    if row is None:
        return Learned()
    return Learned(
        revision=row.revision,
        in_force=row.in_force,
        state=bytes(row.state),
    )


def _expected(
    connection: Connection, tenant: TenantId, what: What, bank: NamespaceId, revision: int
) -> Learned:
    found = _standing(connection, tenant, what, bank)
    if found.revision != revision:
        raise VersionConflictError(expected=revision, actual=found.revision)
    return found


def _write(
    connection: Connection,
    whose: tuple[TenantId, What, NamespaceId],
    found: Learned,
    **values: object,
) -> None:
    tenant, what, bank = whose
    after = {"revision": found.revision + 1, **values}
    if found.revision:
        connection.execute(update(memory_learned).where(_of(tenant, what, bank)).values(after))
        return
    names = {"tenant": tenant, "what": what.value, "bank": bank, "in_force": False}
    connection.execute(insert(memory_learned), {**names, **after})


def _mark(connection: Connection, taught: Sequence[ChoiceMade]) -> None:
    """Note what was learned; what was said meanwhile is another outcome, and is learned next."""
    if not taught:
        return
    query = (
        update(memory_choices)
        .where(_choices.tenant == bindparam("of_tenant"))
        .where(_choices.what == bindparam("of_what"), _choices.key == bindparam("of_key"))
        .values(learned=bindparam("taught"), is_pending=_choices.outcome != bindparam("heard"))
    )
    connection.execute(
        query,
        [
            {
                "of_tenant": one.choice.tenant,
                "of_what": one.choice.what.value,
                "of_key": one.choice.key,
                "taught": one.learned,
                "heard": one.outcome,
            }
            for one in taught
        ],
    )


def _remove(connection: Connection, *, before_ms: int) -> int:
    old = (
        select(_choices.tenant, _choices.what, _choices.key)
        .where(_choices.decided_at_ms < before_ms)
        .limit(REMOVED_AT_ONCE)
    )
    rows = connection.execute(old).all()
    for row in rows:
        connection.execute(delete(memory_choices).where(_is(row.tenant, What(row.what), row.key)))
    return len(rows)


def _is(tenant: TenantId, what: What, key: str) -> Any:
    return and_(_choices.tenant == tenant, _choices.what == what.value, _choices.key == key)


def _of(tenant: TenantId, what: What, bank: NamespaceId) -> Any:
    return and_(_learned.tenant == tenant, _learned.what == what.value, _learned.bank == bank)


def _row(choice: MemoryChoice) -> dict[str, Value]:
    # Not `asdict`, which copies each value deeply.
    kept = {one.name: getattr(choice, one.name) for one in fields(MemoryChoice)}
    return {
        **kept,
        "what": choice.what.value,
        "shown": json.dumps(choice.shown),
        "is_pending": False,
    }


def _made(row: Any) -> ChoiceMade:
    return ChoiceMade(
        choice=MemoryChoice(
            tenant=TenantId(row.tenant),
            what=What(row.what),
            key=row.key,
            agent=PrincipalId(row.agent),
            session=SessionId(row.session),
            decided_at_ms=row.decided_at_ms,
            arm=row.arm,
            propensity=row.propensity,
            explored=row.explored,
            options=row.options,
            context=bytes(row.context),
            bank=NamespaceId(row.bank),
            price=row.price,
            subject=None if row.subject is None else ExperienceId(row.subject),
            shown=tuple(ExperienceId(one) for one in json.loads(row.shown)),
            tokens=row.tokens,
            latency_us=row.latency_us,
            cost_microusd=row.cost_microusd,
        ),
        outcome=row.outcome,
        learned=row.learned,
    )
