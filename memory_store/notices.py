"""Notices: what budgets have to tell an administrator, kept until a webhook has taken it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, update

from governor.amounts import Unit
from governor.ids import BudgetId, CallId, TenantId
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.tables import notices
from memory_store.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeView:
    """A notice as it is stored; `detail` is JSON."""

    seq: int
    at_ms: int
    tenant: TenantId
    kind: str
    budget_id: BudgetId
    subject: str
    unit: Unit
    call_id: CallId
    detail: str
    delivered_at_ms: int | None


class NoticeBook:
    """Lists notices, and marks those that were delivered."""

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

    async def undelivered(self, *, limit: int = 50) -> tuple[NoticeView, ...]:
        """Return notices that no webhook has taken, the oldest first."""
        query = (
            select(notices)
            .where(notices.c.delivered_at_ms.is_(None))
            .order_by(notices.c.seq)
            .limit(clamped(limit))
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(_view(row) for row in rows)

    async def delivered(self, seqs: Sequence[int], *, now_ms: int) -> None:
        """Note that these were taken."""
        change = update(notices).where(notices.c.seq.in_(seqs)).values(delivered_at_ms=now_ms)
        await self._writer.run(lambda connection: connection.execute(change).close())


def _view(row: Any) -> NoticeView:
    return NoticeView(
        seq=row.seq,
        at_ms=row.at_ms,
        tenant=TenantId(row.tenant),
        kind=row.kind,
        budget_id=BudgetId(row.budget_id),
        subject=row.subject,
        unit=Unit(row.unit),
        call_id=CallId(row.call_id),
        detail=row.detail,
        delivered_at_ms=row.delivered_at_ms,
    )
