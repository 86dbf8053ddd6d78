"""The audit log: who changed what, stored in the transaction of the change itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select

from memory_store.advisory import Duty, in_turn
from memory_store.paging import Page, clamped, key_of, page_of
from memory_store.reader import Reader
from memory_store.rows import json_of
from memory_store.tables import audit
from memory_store.writer import Writer

State = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Whoever makes a change."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change; `before` is None for something new, `after` for something removed."""

    seq: int
    at_ms: int
    actor: str
    action: str
    target: str
    before: State | None
    after: State | None


def note(
    connection: Connection,
    *,
    by: Actor,
    at_ms: int,
    action: str,
    target: str,
    before: State | None,
    after: State | None,
) -> None:
    """Write the audit row of a change that the caller makes in the same transaction."""
    connection.execute(
        insert(audit),
        {
            "at_ms": at_ms,
            "actor": by.name,
            "action": action,
            "target": target,
            "before": None if before is None else json_of(before),
            "after": None if after is None else json_of(after),
        },
    )


class AuditLog:
    """The audit log: read the latest change first, written for what the store itself keeps not."""

    def __init__(self, *, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    async def note(
        self, *, by: Actor, now_ms: int, action: str, target: str, before: State, after: State
    ) -> None:
        """Keep a change of what is not in the store.

        Raises:
            StoreUnavailableError: it cannot be kept.
            StoreOverloadedError: too much waits to be kept.
        """

        def work(connection: Connection) -> None:
            note(
                connection,
                by=by,
                at_ms=now_ms,
                action=action,
                target=target,
                before=before,
                after=after,
            )

        await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def page(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page[AuditEntry]:
        """Return the changes before `cursor`, those of an actor, an action or a target if named.

        An action is named whole, or by its first part: `budget` is every `budget.…`.
        """
        limit = clamped(limit)
        query = select(audit).order_by(audit.c.seq.desc()).limit(limit + 1)
        for column, wanted in ((audit.c.actor, actor), (audit.c.target, target)):
            if wanted is not None:
                query = query.where(column == wanted)
        if action is not None:
            is_of_kind = audit.c.action.startswith(f"{action}.", autoescape=True)
            query = query.where((audit.c.action == action) | is_of_kind)
        if cursor is not None:
            (seq,) = key_of(cursor, kinds=(int,))
            query = query.where(audit.c.seq < seq)
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return page_of(rows, limit=limit, item=audit_entry, key=lambda row: (row.seq,))


def audit_entry(row: Any) -> AuditEntry:
    """Return the change in a row of the table."""
    return AuditEntry(
        seq=row.seq,
        at_ms=row.at_ms,
        actor=row.actor,
        action=row.action,
        target=row.target,
        before=None if row.before is None else json.loads(row.before),
        after=None if row.after is None else json.loads(row.after),
    )
