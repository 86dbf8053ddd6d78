"""Notices: what an administrator should hear of, kept until each notifier has taken it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert

from governor.amounts import Unit
from governor.denial_tally import DenialsSeen
from governor.ids import BudgetId, CallId, TenantId
from memory_store import notice_rows
from memory_store.engine import driver_of
from memory_store.notice_rows import NO_BUDGET, NoticeKind
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.tables import notice_receipts, notice_receivers, notices
from memory_store.writer import Writer

__all__ = ["NoticeBook", "NoticeKind", "NoticeView"]

# A transaction that is older than this is over: no notice of an earlier number follows.
SETTLED_MS = 10 * 60 * 1000
_NOBODY = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeView:
    """A notice as it is stored; `detail` is JSON. Not every one is of a budget."""

    seq: int
    at_ms: int
    tenant: TenantId
    kind: NoticeKind
    budget_id: BudgetId | None
    subject: str
    unit: Unit | None
    call_id: CallId
    detail: str
    delivered_at_ms: int | None


class NoticeBook:
    """Lists notices, and keeps for each notifier, by its name, which it has taken."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def page(
        self, *, tenant: TenantId | None = None, cursor: str | None = None, limit: int = 50
    ) -> Page[NoticeView]:
        """Return notices, the latest first."""
        limit = clamped(limit)
        query = select(notices).order_by(notices.c.seq.desc()).limit(limit + 1)
        if tenant is not None:
            query = query.where(notices.c.tenant == tenant)
        if cursor is not None:
            (before,) = key_of(cursor, kinds=(int,))
            query = query.where(notices.c.seq < before)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return page_of(rows, limit=limit, item=_view, key=lambda row: (row.seq,))

    async def tell_denials(self, seen: Sequence[DenialsSeen], *, now_ms: int) -> None:
        """Store notices that calls were denied."""
        rows = [notice_rows.denials(one, now_ms=now_ms) for one in seen]
        await self._writer.run(
            lambda connection: notice_rows.insert_notices(driver_of(connection), rows)
        )

    async def meet(self, name: str) -> None:
        """Begin to keep what a notifier has taken, if it is new: from what nobody was sent yet."""
        begin = select(func.coalesce(func.max(notices.c.seq), 0)).where(
            notices.c.delivered_at_ms.is_not(None)
        )
        known = insert(notice_receivers).on_conflict_do_nothing(index_elements=["name"])
        values = {"name": name, "leased_by": _NOBODY, "leased_until_ms": 0}

        def work(connection: Connection) -> None:
            done = connection.scalar(begin)
            connection.execute(known.values(**values, done_seq=done)).close()

        await self._writer.run(work)

    async def untaken(
        self, name: str, kinds: Collection[str], *, limit: int = 50
    ) -> tuple[NoticeView, ...]:
        """Return notices of those kinds that a notifier has not taken, the oldest first."""
        query = select(notices).where(_is_open(name, kinds)).order_by(notices.c.seq).limit(limit)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(_view(row) for row in rows)

    async def lease(self, name: str, *, by: str, now_ms: int, until_ms: int) -> bool:
        """Tell whether `by` alone delivers to a notifier until then."""
        table = notice_receivers.c
        change = (
            update(notice_receivers)
            .where(table.name == name, (table.leased_by == by) | (table.leased_until_ms <= now_ms))
            .values(leased_by=by, leased_until_ms=until_ms)
        )
        return bool(await self._writer.run(lambda connection: connection.execute(change).rowcount))

    async def taken(self, name: str, seqs: Sequence[int], *, now_ms: int) -> None:
        """Note that a notifier took these."""
        receipts = insert(notice_receipts).on_conflict_do_nothing(index_elements=["name", "seq"])
        first = (
            update(notices)
            .where(notices.c.seq.in_(seqs), notices.c.delivered_at_ms.is_(None))
            .values(delivered_at_ms=now_ms)
        )

        def work(connection: Connection) -> None:
            connection.execute(receipts, [{"name": name, "seq": seq} for seq in seqs]).close()
            connection.execute(first).close()

        await self._writer.run(work)

    async def move_on(self, name: str, kinds: Collection[str], *, now_ms: int) -> None:
        """Keep no receipts below the first notice that a notifier has still to take.

        Numbers are given before they are stored, so that on a server a lower one can follow a
        higher one: what is recent stays open.
        """
        settled = select(func.max(notices.c.seq)).where(
            notices.c.seq > _done(name), notices.c.at_ms < now_ms - SETTLED_MS
        )
        first = select(func.min(notices.c.seq)).where(_is_open(name, kinds))

        def work(connection: Connection) -> None:
            last, waiting = connection.scalar(settled), connection.scalar(first)
            if last is None:
                return
            done = last if waiting is None else min(last, waiting - 1)
            _move(connection, name, done)

        await self._writer.run(work, may_be_dropped=True)


def remove_old_notices(connection: Connection, *, before_ms: int, limit: int) -> int:
    """Remove some notices of before then, whoever has not taken them; return how many."""
    old = select(notices.c.seq).where(notices.c.at_ms < before_ms).order_by(notices.c.seq)
    return connection.execute(delete(notices).where(notices.c.seq.in_(old.limit(limit)))).rowcount


def _move(connection: Connection, name: str, done: int) -> None:
    receiver, receipt = notice_receivers.c, notice_receipts.c
    connection.execute(
        update(notice_receivers)
        .where(receiver.name == name, receiver.done_seq < done)
        .values(done_seq=done)
    ).close()
    connection.execute(
        delete(notice_receipts).where(receipt.name == name, receipt.seq <= done)
    ).close()


def _done(name: str) -> ColumnElement[int]:
    query = select(notice_receivers.c.done_seq).where(notice_receivers.c.name == name)
    return func.coalesce(query.scalar_subquery(), 0)


def _is_open(name: str, kinds: Collection[str]) -> ColumnElement[bool]:
    """Tell of a notice whether a notifier wants it and has not taken it."""
    receipt = notice_receipts.c
    return (
        (notices.c.seq > _done(name))
        & notices.c.kind.in_(sorted(kinds))
        & ~exists().where(receipt.name == name, receipt.seq == notices.c.seq)
    )


def _view(row: Any) -> NoticeView:
    is_of_budget = row.budget_id != NO_BUDGET
    return NoticeView(
        seq=row.seq,
        at_ms=row.at_ms,
        tenant=TenantId(row.tenant),
        kind=NoticeKind(row.kind),
        budget_id=BudgetId(row.budget_id) if is_of_budget else None,
        subject=row.subject,
        unit=Unit(row.unit) if is_of_budget else None,
        call_id=CallId(row.call_id),
        detail=row.detail,
        delivered_at_ms=row.delivered_at_ms,
    )
